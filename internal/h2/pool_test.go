// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// As many connections are dialled as the openings need, at once or 32 at a time, and
// also if a connection says late how many streams it takes.
func TestPoolDialsNoMoreThanNeeded(t *testing.T) {
	tests := map[string]struct {
		streams, parallel, limit, want int
		unknown                        bool
	}{
		"one":                     {streams: 1, parallel: 1, limit: 100, want: 1},
		"2,000, 32 at a time":     {streams: 2000, parallel: 32, limit: 100, want: 20},
		"2,000 at once":           {streams: 2000, parallel: 2000, limit: 100, want: 20},
		"1,000, limit known late": {streams: 1000, parallel: 1000, limit: 100, want: 10, unknown: true},
		"limit 250":               {streams: 1000, parallel: 32, limit: 250, want: 4},
		"limit 10":                {streams: 200, parallel: 32, limit: 10, want: 20},
		"limit 1":                 {streams: 50, parallel: 50, limit: 1, want: 50},
	}
	for name, test := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			server := &fakeServer{limit: test.limit, latency: 50 * time.Millisecond, unknown: test.unknown}
			p := newPool(server.dial)
			turns := make(chan struct{}, test.parallel)
			all := make([]*acquisition, test.streams)
			for i := range all {
				turns <- struct{}{}
				all[i] = open(t.Context(), p)
				go func() { <-all[i].done; <-turns }()
			}
			if test.unknown {
				time.Sleep(time.Second)
				server.wantDials(t, test.want)
				for _, c := range server.connections {
					c.settle()
				}
			}
			time.Sleep(time.Minute)
			if got := served(all); got != test.streams {
				t.Errorf("opened: got %d, want %d", got, test.streams)
			}
			server.wantDials(t, test.want)
			end(p)
		}))
	}
}

// A server that is silent, or allows no streams, is not dialled again and again.
func TestPoolWaitsForSilentServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, unknown: true}
		p := newPool(server.dial)
		waiting := open(t.Context(), p)
		time.Sleep(10 * overdueAfter)
		server.wantDials(t, 1)
		server.connections[0].settle()
		if waiting.waits() || waiting.err != nil {
			t.Errorf("opening: got %v, want the connection", waiting.err)
		}
		end(p)
	})
}

// The last connection teaches how many are needed.
func TestPoolLearnsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 10, latency: overdueAfter / 2}
		p := newPool(server.dial)
		openAll(t.Context(), p, 10)
		time.Sleep(time.Second)
		openAll(t.Context(), p, 25)
		server.wantDials(t, 1+3)
		time.Sleep(time.Second)
		end(p)
	})
}

// A server that takes one stream on a connection is not dialled a thousand times at
// once.
func TestPoolBoundsDialsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1, latency: overdueAfter / 2}
		p := newPool(server.dial)
		p.limit = 1
		ctx, cancel := context.WithCancel(t.Context())
		openAll(ctx, p, 100)
		server.wantDials(t, maxDials)
		cancel()
		synctest.Wait()
		end(p)
	})
}

func TestPoolServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1, unknown: true}
		p := newPool(server.dial)
		ctx, cancel := context.WithCancel(t.Context())
		all := openAll(ctx, p, 3)
		server.connections[0].settle()
		server.set(func() { server.hang = true })
		for i, o := range all {
			if o.waits() || o.c == nil {
				t.Fatalf("opening %d: waits, want it served in its turn", i)
			}
			if i+1 < len(all) && !all[i+1].waits() {
				t.Fatalf("opening %d: served, want it to wait for its turn", i+1)
			}
			o.c.release()
		}
		cancel()
		end(p)
	})
}

// A connection that ends before it was used is a failure, or a server that closes each
// at once would be dialled without end.
func TestPoolFailsWhenConnectionsEndUnused(t *testing.T) {
	tests := map[string]struct {
		server *fakeServer
		end    func(*fakeServer)
	}{
		"during the dial": {&fakeServer{limit: 100, stillborn: true}, func(*fakeServer) {}},
		"before SETTINGS": {&fakeServer{limit: 100, unknown: true}, func(s *fakeServer) { s.connections[0].goAway() }},
	}
	for name, test := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			p := newPool(test.server.dial)
			all := openAll(t.Context(), p, 2)
			test.end(test.server)
			// The second opening of "during the dial" begins after the first has failed.
			for _, o := range all {
				if o.waits() || !errors.Is(o.err, errUnused) || !errors.Is(o.err, errFakeRefusal) {
					t.Errorf("opening: got %v, want %v, and why it ended", o.err, errUnused)
				}
			}
			if dials, _, _ := test.server.counts(); dials > len(all) {
				t.Errorf("dials: got %d for %d openings", dials, len(all))
			}
		}))
	}
}

// The end of its context ends an opening's wait. A dial goes on while anybody waits.
func TestPoolCancelsDialsThatNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{hang: true}
		p := newPool(server.dial)
		gone := errors.New("gone")
		first, cancelFirst := context.WithCancelCause(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		a, b := open(first, p), open(second, p)
		server.wantDials(t, 1)
		cancelFirst(gone)
		if a.waits() || !errors.Is(a.err, gone) {
			t.Errorf("canceled opening: got %v, want %v", a.err, gone)
		}
		if _, canceled, _ := server.counts(); canceled != 0 || !b.waits() {
			t.Error("the dial was canceled while an opening waits")
		}
		cancelSecond()
		synctest.Wait()
		if _, canceled, _ := server.counts(); canceled != 1 || b.waits() {
			t.Errorf("canceled dials: got %d, want 1 when nobody waits", canceled)
		}
		server.set(func() { server.hang, server.limit = false, 1 })
		if c := open(t.Context(), p); c.waits() || c.err != nil {
			t.Errorf("opening after a canceled dial: got %v, want a connection of its own dial", c.err)
		}
		end(p)
	})
}

// A slot that comes at the moment at which the opening's context ends is not lost.
func TestPoolLosesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 1}
		p := newPool(server.dial)
		holder := openAll(t.Context(), p, 1)[0]
		server.set(func() { server.hang = true })
		c := holder.c.(*fakeConnection)
		for range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			waiting := open(ctx, p)
			synctest.Wait()
			p.mu.Lock() // the slot and the end of ctx come at once
			cancel()
			runtime.Gosched()
			c.used--
			p.pooled[0].full = false
			p.serveLocked()
			p.mu.Unlock()
			<-waiting.done
			if waiting.err == nil {
				waiting.c.release()
			}
			if holder = open(t.Context(), p); holder.waits() {
				t.Fatal("the slot was lost")
			}
		}
		end(p)
	})
}

// What takes no new streams is replaced when an opening needs it, by one dial.
func TestPoolReplacesConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, latency: time.Millisecond}
		p := newPool(server.dial)
		all := openAll(t.Context(), p, 250)
		time.Sleep(time.Second)
		if got := served(all); got != 250 {
			t.Fatalf("opened: got %d, want 250", got)
		}
		for _, c := range server.connections[:2] {
			c.goAway()
		}
		server.wantDials(t, 3)
		all = openAll(t.Context(), p, 80)
		time.Sleep(time.Second)
		if got := served(all); got != 80 {
			t.Errorf("opened: got %d, want 80", got)
		}
		server.wantDials(t, 4) // 50 fit on the third
		end(p)
	})
}

func TestPoolClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100}
		p := newPool(server.dial)
		first := openAll(t.Context(), p, 1)[0]
		wantOpen := func(want int) {
			t.Helper()
			synctest.Wait()
			if _, _, got := server.counts(); got != want {
				t.Errorf("open connections after %v: got %d, want %d", idleTimeout, got, want)
			}
		}
		server.connections[0].events.idle(first.c) // it was, until just now
		time.Sleep(2 * idleTimeout)
		wantOpen(1) // in use
		first.c.release()
		time.Sleep(idleTimeout - time.Second)
		again := openAll(t.Context(), p, 1)[0]
		time.Sleep(2 * time.Second)
		wantOpen(1) // in use again
		again.c.release()
		time.Sleep(idleTimeout - time.Second)
		wantOpen(1)
		time.Sleep(time.Second)
		wantOpen(0)
		server.wantDials(t, 1)
		openAll(t.Context(), p, 1)[0].c.release()
		server.wantDials(t, 2)
		p.closeIdle()
		wantOpen(0)
	})
}

// A connection that nobody waits for any more when it comes is closed like an idle one.
func TestPoolClosesConnectionsThatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100, unknown: true}
		p := newPool(server.dial)
		ctx, cancel := context.WithCancel(t.Context())
		openAll(ctx, p, 1)
		cancel()
		synctest.Wait()
		server.connections[0].settle()
		time.Sleep(idleTimeout)
		synctest.Wait()
		if _, _, got := server.counts(); got != 0 {
			t.Errorf("open connections: got %d, want none", got)
		}
	})
}

// A server that never says how many streams it takes, or takes none, has a bounded number
// of connections at a time, however long openings wait.
func TestPoolBoundsConnectionsWithoutStreams(t *testing.T) {
	for name, server := range map[string]*fakeServer{"no SETTINGS": {limit: 100, unknown: true}, "limit 0": {}} {
		t.Run(name, inBubble(func(t *testing.T) {
			p := newPool(server.dial)
			ctx, cancel := context.WithCancel(t.Context())
			openAll(ctx, p, 1000)
			for range 10 {
				time.Sleep(time.Minute)
				if _, _, got := server.counts(); got > maxDials {
					t.Fatalf("open connections: got %d, want %d at most", got, maxDials)
				}
			}
			if dials, _, _ := server.counts(); dials <= maxDials {
				t.Errorf("dials: got %d, want more, in place of those that were idle for too long", dials)
			}
			cancel()
			end(p)
		}))
	}
}
