// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// echo is a server with streams that stay open: a stream begins with "hello" and then
// has what push sends to it.
type echo struct {
	*httptest.Server
	push sync.Map // path → chan []byte; nil ends the stream
}

func newEcho(t *testing.T) *echo {
	e := &echo{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := make(chan []byte)
		e.push.Store(r.URL.Path, data)
		fmt.Fprint(w, "hello")
		w.(http.Flusher).Flush()
		for {
			select {
			case p := <-data:
				if p == nil {
					return
				}
				_, _ = w.Write(p)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	e.EnableHTTP2 = true
	e.StartTLS()
	t.Cleanup(e.Close)
	return e
}

func (e *echo) dial(t *testing.T, events connectionEvents) *conn {
	config := e.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	config.ServerName = "example.com"
	nc, err := tls.Dial("tcp", e.Listener.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newConn(nc, events, connOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.close()
		<-c.done
	})
	return c
}

// slotEvents has a value when a slot may be free.
type slotEvents chan struct{}

func (e slotEvents) slotFreed(c connection) {
	for range c.limit() {
		select {
		case e <- struct{}{}:
		default:
			return
		}
	}
}
func (slotEvents) idle(connection) {}
func (slotEvents) gone(connection) {}

// buffer is a Receiver that can be waited for.
type buffer struct {
	mu   sync.Mutex
	cond sync.Cond
	data bytes.Buffer
	err  error
}

func newBuffer() *buffer {
	b := &buffer{}
	b.cond.L = &b.mu
	return b
}

func (b *buffer) Data(p []byte) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data.Write(p)
	b.cond.Broadcast()
	return len(p)
}

func (b *buffer) End(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
	b.cond.Broadcast()
}

// wait waits until size bytes or the end have come.
func (b *buffer) wait(size int) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data.Len() < size && b.err == nil {
		b.cond.Wait()
	}
	return b.data.String(), b.err
}

// TestNetHTTPServer opens streams to net/http's server, one of them larger than the
// windows of the stream.
func TestNetHTTPServer(t *testing.T) {
	const n = 150 // the first SETTINGS, which allow 250, may come later than the 100th
	e := newEcho(t)
	slots := make(slotEvents, n)
	c := e.dial(t, slots)
	large := bytes.Repeat([]byte("x"), 10<<20)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			path := fmt.Sprintf("/%d", i)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+path, http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			for !c.reserve() {
				<-slots
			}
			resp, err := c.roundTrip(req, nil)
			if err != nil {
				t.Error(err)
				return
			}
			b := newBuffer()
			body := resp.Body.(Body)
			body.Receive(b)
			body.Detach()
			data, _ := e.push.Load(path)
			text := []byte(path)
			if i == 0 {
				text = large
			}
			want := "hello" + string(text)
			data.(chan []byte) <- text
			if got, err := b.wait(len(want)); got != want || err != nil {
				t.Errorf("stream %d: got %d bytes, %v; want %d", i, len(got), err, len(want))
			}
			if i%2 == 0 {
				_ = body.Close()
				return
			}
			data.(chan []byte) <- nil
			if _, err := b.wait(len(want) + 1); !errors.Is(err, io.EOF) {
				t.Errorf("stream %d: End(%v), want io.EOF", i, err)
			}
		})
	}
	wg.Wait()
}
