// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// closeIdle also closes what becomes idle later, unless it was used again, and what nobody
// has a use for yet.
func TestPoolClosesWhatBecomesIdle(t *testing.T) {
	wantOpen := func(t *testing.T, server *fakeServer, want int, when string) {
		t.Helper()
		synctest.Wait()
		if _, _, got := server.counts(); got != want {
			t.Errorf("open connections %s: got %d, want %d", when, got, want)
		}
	}
	tests := map[string]func(*testing.T){
		"in use": func(t *testing.T) {
			server := &fakeServer{limit: 100}
			p := newPool(server.dial)
			first := openAll(t.Context(), p, 1)[0]
			p.closeIdle()
			wantOpen(t, server, 1, "with a stream")
			first.c.release()
			wantOpen(t, server, 0, "after the stream")
		},
		"in use, and again": func(t *testing.T) {
			server := &fakeServer{limit: 100}
			p := newPool(server.dial)
			first := openAll(t.Context(), p, 1)[0]
			p.closeIdle()
			openAll(t.Context(), p, 1)[0].c.release()
			first.c.release()
			time.Sleep(idleTimeout - time.Second)
			wantOpen(t, server, 1, "after another stream")
			end(p)
		},
		"no SETTINGS yet": func(t *testing.T) {
			server := &fakeServer{limit: 100, unknown: true}
			p := newPool(server.dial)
			ctx, cancel := context.WithCancel(t.Context())
			openAll(ctx, p, 1)
			p.closeIdle()
			wantOpen(t, server, 1, "with an opening that waits for SETTINGS")
			cancel()
			wantOpen(t, server, 0, "when nobody waits")
		},
		"dialled in vain": func(t *testing.T) {
			server := &fakeServer{limit: 100, latency: time.Second}
			p := newPool(func(ctx context.Context, r *http.Request, events connectionEvents) (connection, error) {
				return server.dial(context.WithoutCancel(ctx), r, events) // it is too late to end it
			})
			ctx, cancel := context.WithCancel(t.Context())
			openAll(ctx, p, 1)
			cancel()
			synctest.Wait()
			p.closeIdle()
			time.Sleep(time.Second)
			wantOpen(t, server, 0, "after the dial")
			server.wantDials(t, 1)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}
