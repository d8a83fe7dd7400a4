// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// One event of 1 KiB on one of 100 streams, which a Receiver takes.
func BenchmarkReceive(b *testing.B) {
	const streams = 100
	up, down := memPipe(1 << 20)
	s := newScript(b, down, false)
	client := dialConn(b, up)
	s.accept()
	s.answersPing() // the client has read SETTINGS
	var ids []uint32
	for range streams {
		c := get(client, "/", receive)
		id := s.request("/")
		s.ok(id)
		for c.status() == 0 {
			<-c.changed
		}
		defer func() { c.close(); <-c.done }()
		ids = append(ids, id)
	}
	s.mute()
	event := strings.Repeat("x", 1<<10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.data(ids[i%streams], event)
		if i%1000 == 999 && !s.answersPing() {
			b.Fatal("the client does not read")
		}
	}
	client.close()
}

// A stream from its request to Close, with the PING that frees its slot.
func BenchmarkOpenAndClose(b *testing.B) {
	up, down := memPipe(1 << 20)
	s := newScript(b, down, false)
	client := dialConn(b, up)
	s.accept()
	s.answersPing() // the client has read SETTINGS
	b.ReportAllocs()
	for b.Loop() {
		c := get(client, "/", hold)
		id := s.request("/")
		s.ok(id)
		<-c.done
		c.close()
		ping := s.take("PING", func(f frame) bool { return f.ping != [8]byte{} })
		s.pong(ping.ping)
		s.take("RST_STREAM", func(f frame) bool { return f.code != 0 })
	}
	client.close()
}

// 64 goroutines close all streams of a pool of 19 connections and open as many, as after the
// restart of a node. The profile of -mutexprofile shows who waits for the lock of the pool.
func BenchmarkChurn(b *testing.B) {
	const open, workers = 1900, 64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2, server.Config.HTTP2 = true, &http.HTTP2Config{MaxConcurrentStreams: 100}
	server.StartTLS()
	defer server.Close()
	transport := New(server.Client().Transport)
	defer transport.CloseIdleConnections()
	begin := func() io.Closer {
		request, err := http.NewRequestWithContext(WithParking(b.Context()), http.MethodGet, server.URL+"/?watch=true", nil)
		if err != nil {
			b.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			b.Error(err)
			return io.NopCloser(nil)
		}
		return response.Body
	}
	streams := make([]io.Closer, open)
	share := func(work func(i int)) {
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				for i := w; i < open; i += workers {
					work(i)
				}
			})
		}
		all.Wait()
	}
	share(func(i int) { streams[i] = begin() })
	for b.Loop() {
		share(func(i int) { _ = streams[i].Close() })
		share(func(i int) { streams[i] = begin() })
	}
	share(func(i int) { _ = streams[i].Close() })
}
