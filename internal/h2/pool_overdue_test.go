// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A dial that takes long gets another beside it, so that one unreachable address does
// not hold up all. Dials in flight are bounded all the same.
func TestPoolDialsBesideOneThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, hang: true}
		p := newPool(server.dial)
		first := open(t.Context(), p)
		time.Sleep(overdueAfter - time.Millisecond)
		server.wantDials(t, 1)
		time.Sleep(2 * time.Millisecond)
		server.wantDials(t, 2)
		server.set(func() { server.hang = false })
		time.Sleep(overdueAfterFirst)
		server.wantDials(t, 3)
		if first.waits() || first.err != nil {
			t.Errorf("opening: got %v, want the connection that came", first.err)
		}
		time.Sleep(10 * overdueAfter)
		server.wantDials(t, 3)
		end(p)
	})
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, hang: true}
		p := newPool(server.dial)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		<-open(ctx, p).done
		server.wantDials(t, maxDials)
		synctest.Wait()
	})
}

// Dials that take long get one more at a time beside all of them, however many there are. A
// server that is away got as many more every few seconds as its streams need connections.
func TestPoolDialsOnceBesideSeveralThatTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1}
		p := newPool(server.dial)
		open(t.Context(), p).waits()
		end(p)
		server.set(func() { server.hang = true })
		ctx, cancel := context.WithCancel(t.Context())
		waiting := openAll(ctx, p, 5)
		server.wantDials(t, 1+5)
		time.Sleep(overdueAfter)
		server.wantDials(t, 1+5+1)
		time.Sleep(2 * overdueAfterFirst)
		server.wantDials(t, 1+5+3)
		server.set(func() { server.hang = false })
		time.Sleep(overdueAfterFirst)
		if got := served(waiting); got != len(waiting) {
			t.Errorf("after the server is back: got %d connections, want %d", got, len(waiting))
		}
		cancel()
		end(p)
	})
}

// While a connection lives, a dial that takes long is that of one bad server of several.
// The next dial gets another beside it at once.
func TestPoolDialsTwoBesideOneThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1}
		p := newPool(server.dial)
		open(t.Context(), p).waits()
		server.set(func() { server.hang = true })
		second := open(t.Context(), p)
		time.Sleep(overdueAfter - time.Millisecond)
		server.wantDials(t, 2)
		server.set(func() { server.hang = false })
		time.Sleep(time.Millisecond)
		server.wantDials(t, 4)
		if second.waits() || second.err != nil {
			t.Errorf("opening: got %v, want a connection", second.err)
		}
		time.Sleep(spareFor + idleTimeout)
		open(t.Context(), p).waits()
		server.wantDials(t, 5)
		end(p)
	})
}

// A connection that lives may not have noticed yet that the server is away. After some
// dials that take long it does not count any more.
func TestPoolDialsSeldomWhileAFrozenConnectionLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1}
		p := newPool(server.dial)
		open(t.Context(), p).waits()
		server.set(func() { server.hang = true })
		ctx, cancel := context.WithCancel(t.Context())
		waiting := openAll(ctx, p, 3)
		time.Sleep(overdueAfter)
		server.wantDials(t, 1+3+4)
		time.Sleep(overdueAfter)
		server.wantDials(t, 1+3+4+1)
		time.Sleep(2 * overdueAfterFirst)
		server.wantDials(t, 1+3+4+1+2)
		server.set(func() { server.hang = false })
		time.Sleep(overdueAfterFirst)
		if got := served(waiting); got != len(waiting) {
			t.Errorf("after the server is back: got %d connections, want %d", got, len(waiting))
		}
		cancel()
		end(p)
	})
}
