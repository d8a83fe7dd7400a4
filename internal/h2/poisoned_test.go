// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/tls"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// TestGolang47635: a connection may fail each new stream, while the old ones live. Openings
// leave it, and these go on.
func TestGolang47635(t *testing.T) {
	tests := map[string]struct {
		code   http2.ErrCode
		failed int // openings
		left   string
	}{
		"PROTOCOL_ERROR":    {code: http2.ErrCodeProtocol, left: Poisoned},
		"INTERNAL_ERROR":    {code: http2.ErrCodeInternal, failed: resetsAllowed, left: Resets},
		"ENHANCE_YOUR_CALM": {code: http2.ErrCodeEnhanceYourCalm, failed: resetsAllowed, left: Resets},
	}
	for name, test := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			connections, poisoned := 0, false
			server := serve(t, func(s *site) {
				s.serveHTTP2(func(c *tls.Conn) {
					connections++
					first := connections == 1
					serverScript(c, func(f *http2.Framer, id uint32) bool {
						if first && poisoned {
							return f.WriteRSTStream(id, test.code) == nil
						}
						return found(f, id)
					})
				})
			})
			c := clientFor(t, server.config())
			var counters Counters
			ctx := WithCounters(t.Context(), &counters)
			old, err := c.get(ctx, "/api?watch=true")
			check(t, err)
			poisoned = true
			failed := 0
			for range 10 {
				response, err := c.get(ctx, "/api?watch=true")
				if err != nil {
					failed++
					continue
				}
				defer func() { _ = response.Body.Close() }()
			}
			if dials, _ := server.seen(); dials != 2 || failed != test.failed {
				t.Errorf("got %d dials and %d failed openings, want 2 and %d", dials, failed, test.failed)
			}
			if got := counters.Counts(); got.Left[test.left] != 1 || got.Resets[test.code.String()] == 0 {
				t.Errorf("counters: got %v, want one connection that was left, %s, and resets", got, test.left)
			}
			poisoned = false
			response, err := c.get(t.Context(), "/api?watch=true")
			check(t, err)
			defer func() { _ = response.Body.Close() }()
			p := c.transport.pools["server"]
			p.mu.Lock()
			left := len(p.pooled)
			p.mu.Unlock()
			if left != 1 {
				t.Errorf("got %d connections that take streams, want 1", left)
			}
			_ = old.Body.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			p.unlockedDraining(t)
		}))
	}
}

// unlockedDraining checks that no connection is left that was taken out of use.
func (p *pool) unlockedDraining(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.draining) > 0 {
		t.Errorf("got %d connections that drain, want none after their last stream", len(p.draining))
	}
}

// Streams that a healthy server resets do not make it dialled again and again.
func TestResetsOfAHealthyServer(t *testing.T) {
	t.Run("all openings of some objects", inBubble(func(t *testing.T) {
		server := serveSick(t, 100)
		server.set(func(_ int, r *http.Request) {
			if r.URL.Query().Has("reset") {
				aborts(r)
			}
		})
		c := clientFor(t, server.config())
		c.watch()
		for i := range 600 {
			if _, err := c.get(t.Context(), "/api?watch=true&reset"); err == nil { //nolint:bodyclose // an error
				t.Error("got a response, want a reset")
			}
			if i%100 == 99 {
				c.watch()
			}
			time.Sleep(time.Second)
		}
		server.wantDials(t, 1, 25) // one a minute, and a few at first
		if got := server.sent(); got > 700 {
			t.Errorf("requests: got %d, want 700 at most", got)
		}
	}))
	t.Run("every third opening", inBubble(func(t *testing.T) {
		server := serveSick(t, 100)
		n := 0
		server.set(func(_ int, r *http.Request) {
			if n++; n%3 == 0 {
				aborts(r)
			}
		})
		c := clientFor(t, server.config())
		for range 300 {
			response, err := c.get(t.Context(), "/api?watch=true")
			if err == nil {
				_ = response.Body.Close()
			}
			time.Sleep(time.Second)
		}
		server.wantDials(t, 1, 1)
	}))
}
