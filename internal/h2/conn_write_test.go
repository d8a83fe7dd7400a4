// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestServerThatDoesNotRead: a write that takes too long ends the connection. Others
// that wait to write end with their contexts.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		framer := http2.NewFramer(server, server)
		go func() {
			buf := make([]byte, 1<<10)
			_, _ = server.Read(buf) // the preface
			_ = framer.WriteSettings()
			_, _ = server.Read(buf) // the acknowledgement, and nothing more
		}()
		c, err := newConn(client, &eventLog{}, connOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := &peer{t: t, c: c}
		first := p.get(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second := p.get(ctx)
		start := time.Now()
		<-second.done
		if took := time.Since(start); !errors.Is(second.err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("the second request ended after %v with %v", took, second.err)
		}
		<-first.done
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("the write ended after %v, want 15s", took)
		}
		if !errors.Is(first.err, errUnprocessed) || !utilnet.IsTimeout(first.err) {
			t.Errorf("the first request ended with %v, want a timeout of the write", first.err)
		}
		<-c.done
		_ = server.Close()
	})
}

// TestSettingsApplyToRequests: requests keep to the server's SETTINGS as soon as they
// are acknowledged.
func TestSettingsApplyToRequests(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		p.send(p.framer.WriteSettings(
			http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 40_000},
			http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0},
		))
		p.wantSent("SETTINGS ack")
		req := newRequest(t.Context(), t)
		req.Header.Set("X-Large", strings.Repeat("~", 20_000)) // not smaller in Huffman's code
		p.framer.ReadMetaHeaders = nil
		p.request(req)
		p.wantSent("HEADERS 1 END_STREAM", "CONTINUATION 1")

		p.send(p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 15}))
		p.wantSent("SETTINGS ack")
		req = newRequest(t.Context(), t)
		req.Header.Set("X-Large", strings.Repeat("~", 20_000))
		p.request(req)
		p.wantSent("HEADERS 3 END_STREAM")

		p.send(p.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 10}))
		p.wantSent("SETTINGS ack")
		p.events.take()
		a := p.get(t.Context())
		<-a.done
		if a.err == nil || errors.Is(a.err, errUnprocessed) || !strings.Contains(a.err.Error(), "the server allows 10") {
			t.Errorf("a header above the limit: %v", a.err)
		}
		wantEvents(t, p, "slotFreed")
	})
}

// TestHeaderTableSize: the HPACK encoder uses the table that the server allows.
func TestHeaderTableSize(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		p.send(p.framer.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}))
		p.sent()
		p.c.writing <- struct{}{}
		defer func() { <-p.c.writing }()
		field := hpack.HeaderField{Name: "x-a", Value: "some value"}
		var sizes []int
		for range 2 {
			p.c.block.Reset()
			if err := p.c.encoder.WriteField(field); err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, p.c.block.Len())
		}
		if sizes[1] < len(field.Value)/2 {
			t.Errorf("the encoder wrote %v bytes: it uses a table that the server does not have", sizes)
		}
	})
}

// TestPathsStayOutOfTheHeaderTable: paths do not replace the fields that all requests
// share.
func TestPathsStayOutOfTheHeaderTable(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		p.c.writing <- struct{}{}
		defer func() { <-p.c.writing }()
		path, token := strings.Repeat("p", 500), strings.Repeat("t", 900)
		for i := range 50 {
			req := newRequest(t.Context(), t)
			req.URL.Path = fmt.Sprintf("/%d%s", i, path)
			req.Header.Set("Authorization", token)
			fields, err := requestFields(req)
			if err != nil {
				t.Fatal(err)
			}
			p.c.block.Reset()
			for _, f := range fields {
				if err := p.c.encoder.WriteField(f); err != nil {
					t.Fatal(err)
				}
			}
			if size := p.c.block.Len(); i > 0 && size > len(path)+50 {
				t.Fatalf("request %d has %d bytes: it repeats what was sent before", i, size)
			}
		}
	})
}

func TestRequestFields(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		fields := func(edit func(header map[string][]string)) ([]string, error) {
			req := newRequest(t.Context(), t)
			edit(req.Header)
			fields, err := requestFields(req)
			var lines []string
			for _, f := range fields {
				lines = append(lines, f.Name+"="+f.Value)
			}
			slices.Sort(lines)
			return lines, err
		}
		pseudo := []string{":authority=server", ":method=GET", ":path=/api?watch=true", ":scheme=https"}
		tests := map[string]struct {
			header map[string][]string
			want   []string
		}{
			"default user agent": {nil, []string{"user-agent=Go-http-client/2.0"}},
			"no user agent":      {map[string][]string{"User-Agent": {""}}, nil},
			"lower case": {map[string][]string{"User-Agent": {"me", "you"}, "X-Many": {"a", "b"}},
				[]string{"user-agent=me", "x-many=a", "x-many=b"}},
			"fields of HTTP/1": {map[string][]string{
				"User-Agent": nil, "Connection": {"keep-alive"}, "Keep-Alive": {"1"}, "Proxy-Connection": {"x"},
				"Transfer-Encoding": {"chunked"}, "Upgrade": {"x"}, "Host": {"other"}, "Content-Length": {"0"},
				"Te": {"gzip", "trailers"},
			}, []string{"te=trailers"}},
		}
		for name, test := range tests {
			got, err := fields(func(h map[string][]string) {
				for k, v := range test.header {
					h[k] = v
				}
			})
			if want := append(slices.Clone(pseudo), test.want...); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: got %q, %v; want %q", name, got, err, want)
			}
		}
		for _, h := range []map[string][]string{{"X-A": {"secret\n"}}, {"X A": {"secret"}}, {"Ü": {"secret"}}} {
			_, err := fields(func(header map[string][]string) {
				for k, v := range h {
					header[k] = v
				}
			})
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("header %q: %v", h, err)
			}
		}
		req := newRequest(t.Context(), t)
		req.Header.Set("X-A", "\n")
		if a := p.request(req); a.err == nil || p.c.taken() != 0 {
			t.Errorf("an invalid request: %v, %d slots taken", a.err, p.c.taken())
		}
		p.wantSent()
	})
}

// A buffer that a large write has enlarged is given back; that of a small one serves the next write.
func TestWriteBuffersAreKeptIfSmall(t *testing.T) {
	for size, kept := range map[int]bool{keptBuffer / 2: true, 2 * keptBuffer: false} {
		var buffer bytes.Buffer
		buffer.Write(make([]byte, size))
		reset(&buffer)
		if got := buffer.Cap() > 0; got != kept || buffer.Len() != 0 {
			t.Errorf("after %d bytes: got %d bytes in memory of %d, want it kept: %v", size, buffer.Len(), buffer.Cap(), kept)
		}
	}
}
