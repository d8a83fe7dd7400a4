// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/network"
)

// serveFar is serveSick, and the config of a client that is a round trip away.
func serveFar(t *testing.T, limit int, roundTrip time.Duration) (*sick, *rest.Config) {
	t.Cleanup(func() { time.Sleep(idleTimeout) }) // after the others: nothing is under way when the bubble ends
	s := serveSick(t, limit)
	config := rest.CopyConfig(s.config())
	config.Dial = network.Far(config.Dial, roundTrip)
	return s, config
}

// A connection to a server far away takes streams before its SETTINGS have come.
func TestPoolUsesAFarConnectionEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, latency: 4 * time.Second, unknown: true}
		p := newPool(server.dial)
		var all []*acquisition
		for range 100 {
			all = append(all, open(t.Context(), p))
		}
		time.Sleep(server.latency)
		if got := served(all); got != len(all) {
			t.Errorf("after the dial %d of %d have the connection, want all", got, len(all))
		}
		end(p)
	})
}

// A server that allows fewer streams than a connection takes early refuses some. They are sent again.
func TestFarConnectionOfFewStreams(t *testing.T) {
	for _, limit := range []int{5, 50, 100} {
		synctest.Test(t, func(t *testing.T) {
			_, config := serveFar(t, limit, 400*time.Millisecond)
			c := clientFor(t, config)
			opened := make(chan time.Duration)
			began := time.Now()
			const streams = 150
			for range streams {
				go func() {
					c.watch()
					opened <- time.Since(began)
				}()
			}
			for range streams {
				if took := <-opened; took > 4*time.Second {
					t.Errorf("limit %d: a watch was opened after %v, want 10 round trips at most", limit, took)
				}
			}
		})
	}
}

// Answers of a server far away are not late, and those of one that is slow are not after the first ones.
func TestFarAnswersAreNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, config := serveFar(t, 100, 4*time.Second)
		c := clientFor(t, config)
		for i, want := range []time.Duration{12 * time.Second, 4 * time.Second, 4 * time.Second} {
			if _, took := c.took(); took != want {
				t.Errorf("watch %d took %v, want %v", i, took, want)
			}
			if got := server.sent(); got != i+1 {
				t.Errorf("got %d requests for %d watches", got, i+1)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		server := serveSick(t, 100)
		server.set(slow(4 * time.Second))
		c := clientFor(t, server.config())
		c.watch()
		c.watch()
		before := server.sent()
		for range 5 {
			c.watch()
		}
		if got := server.sent() - before; got != 5 {
			t.Errorf("got %d requests for 5 watches after the first two", got)
		}
	})
}

// A dial took long once, for another reason than the way: answers have shown since that the server is near. So a dial
// that hangs is soon noticed.
func TestOneSlowDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, latency: 8 * time.Second}
		p := newPool(server.dial)
		first := open(t.Context(), p)
		time.Sleep(server.latency)
		if first.waits() {
			t.Fatal("the first opening waits for longer than a dial takes")
		}
		time.Sleep(spareFor + overdueAfterFirst)
		server.set(func() { server.hang = true })
		end(p)
		before, _, _ := server.counts()
		ctx, cancel := context.WithCancel(t.Context())
		open(ctx, p)
		time.Sleep(overdueAfter + time.Millisecond)
		server.wantDials(t, before+2)
		cancel()
		synctest.Wait()
	})
}
