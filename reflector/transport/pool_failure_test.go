// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A failure to dial is that of those who wait for it, and of nobody else: who comes later
// dials.
func TestPoolReturnsFailuresToThoseThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		server := &fakeServer{limit: 100, latency: time.Second, err: refused}
		p := newPool(server.dial)
		all := openAll(t.Context(), p, 50)
		time.Sleep(time.Second)
		for i, o := range all {
			if o.waits() || !errors.Is(o.err, refused) {
				t.Fatalf("opening %d: got %v, want %v", i, o.err, refused)
			}
		}
		server.wantDials(t, 1)
		server.set(func() { server.err = nil })
		if later := open(t.Context(), p); !later.waits() {
			t.Error("opening after a failure: has ended, want it to dial")
		}
		time.Sleep(time.Second)
		server.wantDials(t, 2)
		end(p)
	})
}

// The failure of one dial fails as many openings as wait for its connection: others have
// dials of their own.
func TestPoolFailureOfOneDialOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		server := &fakeServer{limit: 100, latency: time.Second, firstErr: refused}
		p := newPool(server.dial)
		all := openAll(t.Context(), p, 250)
		time.Sleep(time.Minute)
		failed := 0
		for i, o := range all {
			switch {
			case !o.waits() && errors.Is(o.err, refused):
				failed++
			case o.waits() || o.err != nil:
				t.Fatalf("opening %d: got %v, want a connection or %v", i, o.err, refused)
			}
		}
		if failed != 100 {
			t.Errorf("failed openings: got %d, want 100", failed)
		}
		server.wantDials(t, 3)
		end(p)
	})
}
