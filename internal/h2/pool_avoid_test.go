// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"testing"
	"testing/synctest"
)

// An opening that avoids the only connection with slots waits for a dial. Others take
// those slots, and do not wait with it.
func TestPoolServesOthersThanOneThatAvoids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 2}
		p := newPool(server.dial)
		first := open(t.Context(), p)
		<-first.done
		server.set(func() { server.hang = true })
		avoids := make(chan error)
		go func() {
			_, err := acquire(t.Context(), p, first.c)
			avoids <- err
		}()
		synctest.Wait()
		second, third := open(t.Context(), p), open(t.Context(), p)
		if served([]*acquisition{second, third}) != 1 {
			t.Error("got no slot of the connection that another opening avoids")
		}
		server.set(func() { server.hang = false })
		first.c.release()
		if served([]*acquisition{second, third}) != 2 {
			t.Error("got no slot that became free")
		}
		<-third.done
		<-second.done
		if err := <-avoids; err != nil {
			t.Errorf("the opening that avoids: got %v, want a connection of its own", err)
		}
		end(p)
	})
}

// An opening whose request was refused gets another connection, also if a slot of the
// one that has refused becomes free first.
func TestPoolAvoidsConnectionsThatRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, latency: overdueAfter / 2}
		p := newPool(server.dial)
		first := open(t.Context(), p)
		<-first.done
		var again connection
		got := make(chan struct{})
		go func() {
			defer close(got)
			again, _ = acquire(t.Context(), p, first.c)
		}()
		synctest.Wait()
		first.c.release()
		<-got
		if again == nil || again == first.c {
			t.Errorf("got %p after a refusal by %p, want another connection", again, first.c)
		}
		end(p)
	})
}
