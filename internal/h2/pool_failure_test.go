// SPDX-License-Identifier: Apache-2.0

package h2

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
		server := &fakeServer{limit: 100, latency: time.Second / 2, err: refused}
		p := newPool(server.dial)
		all := openAll(t.Context(), p, 50)
		time.Sleep(time.Second / 2)
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
		time.Sleep(time.Second / 2)
		server.wantDials(t, 2)
		end(p)
	})
}

// The failure of one dial fails as many openings as wait for its connection: others have
// dials of their own.
func TestPoolFailureOfOneDialOfSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		server := &fakeServer{limit: 100, latency: time.Second / 2, firstErr: refused}
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

// While a connection lives, the failure of a dial is that of one opening: a load balancer
// gives the next dial to another server.
func TestPoolFailureWhileAConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		server := &fakeServer{limit: 2, latency: time.Second / 2}
		p := newPool(server.dial)
		living := openAll(t.Context(), p, 2)
		time.Sleep(time.Second / 2)
		if got := served(living); got != 2 {
			t.Fatalf("openings: got %d served, want 2", got)
		}
		server.set(func() { server.err = refused })
		all := openAll(t.Context(), p, 2)
		server.set(func() { server.err = nil }) // of the next dial
		time.Sleep(time.Second / 2)
		if first := all[0]; first.waits() || !errors.Is(first.err, refused) {
			t.Errorf("the oldest opening: got %v, want %v", first.err, refused)
		}
		server.wantDials(t, 3)
		time.Sleep(time.Second / 2)
		if second := all[1]; second.waits() || second.err != nil {
			t.Errorf("the other opening: got %v, want the connection of another dial", second.err)
		}
		end(p)
	})
}
