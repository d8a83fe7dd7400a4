// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// opened counts how opens ended.
type opened struct {
	mu                    sync.Mutex
	open, throttled, lost int
	last                  time.Duration // of the opens
}

// openAll opens n streams at once, with one hand of queues.
func openAll(t *testing.T, s *server, n int, hand ...int) (*opened, *sync.WaitGroup) {
	var all sync.WaitGroup
	o, began, life := &opened{}, time.Now(), s.life()
	for range n {
		all.Go(func() {
			err := s.open(t.Context(), life, hand)
			o.mu.Lock()
			defer o.mu.Unlock()
			switch seconds, asked := apierrors.SuggestsClientDelay(err); {
			case err == nil:
				o.open, o.last = o.open+1, max(o.last, time.Since(began))
			case apierrors.IsTooManyRequests(err) && asked && seconds == 1:
				o.throttled++
			case errors.Is(err, io.ErrUnexpectedEOF):
				o.lost++
			default:
				t.Errorf("open: got %v, want a 429 with a Retry-After of a second, or a lost connection", err)
			}
		})
	}
	return o, &all
}

// tiny opens ten streams a second, one at a time, and has room for four that wait.
var tiny = ServerOptions{OpensPerSecond: 10, Seats: 1, Queues: 4, HandSize: 2, QueueLength: 2}

func TestServerBounds(t *testing.T) {
	for opens, want := range map[int]*opened{
		1:  {open: 1, last: 100 * time.Millisecond},
		5:  {open: 5, last: 500 * time.Millisecond},
		99: {open: 5, last: 500 * time.Millisecond, throttled: 94},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(tiny)
			got, all := openAll(t, s, opens, 0, 1)
			all.Wait()
			if got.open != want.open || got.throttled != want.throttled || got.last != want.last {
				t.Errorf("%d opens: got %d open and %d throttled after %s, want %d and %d after %s", opens,
					got.open, got.throttled, got.last, want.open, want.throttled, want.last)
			}
			if m := s.reset(); m.most != want.open || m.arrived.most != opens {
				t.Errorf("got %d in the server at a time and %d a second, want %d and %d", m.most, m.arrived.most, want.open, opens)
			}
		})
	}
}

// TestServerIsFair: a client does not wait for all requests of an earlier one with another hand.
func TestServerIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(tiny)
		_, first := openAll(t, s, 50, 0, 1)
		synctest.Wait()
		modest, all := openAll(t, s, 1, 2, 3)
		all.Wait()
		first.Wait()
		if modest.open != 1 || modest.last > 400*time.Millisecond {
			t.Errorf("got %d open after %s, want one before the last of the other client", modest.open, modest.last)
		}
	})
}

func TestServerThrottlesLongWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tiny
		slow.OpensPerSecond, slow.QueueLength = 1, 20
		s := newServer(slow)
		got, all := openAll(t, s, 20, 0, 1)
		all.Wait()
		if got.open < 14 || got.throttled == 0 || got.open+got.throttled != 20 {
			t.Errorf("got %d open and %d throttled, want those of 15 s open and the others throttled", got.open, got.throttled)
		}
		again, all := openAll(t, s, 1, 0, 1)
		if all.Wait(); again.open != 1 {
			t.Error("got a full queue after its waiters were throttled, want room")
		}
	})
}

func TestServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(tiny)
		got, all := openAll(t, s, 5, 0, 1)
		after(250 * time.Millisecond)
		s.stop()
		all.Wait()
		if got.open != 2 || got.lost != 3 || s.life() != nil {
			t.Errorf("got %d open and %d lost, want 2 and 3", got.open, got.lost)
		}
		s.start(time.Second)
		unready, all := openAll(t, s, 1, 0, 1)
		if all.Wait(); unready.throttled != 1 {
			t.Error("got no 429 while the cache is not ready, want one")
		}
		after(time.Second)
		ready, all := openAll(t, s, 5, 0, 1)
		if all.Wait(); ready.open != 5 {
			t.Errorf("got %d open, want 5: all seats and queues are new", ready.open)
		}
	})
}

func TestServerOptions(t *testing.T) {
	for times, want := range map[float64]ServerOptions{
		1:      {2400, 74, 64, 6, 50, 3 * time.Second},
		2:      {4800, 148, 64, 6, 100, 3 * time.Second},
		0.05:   {120, 4, 16, 6, 10, 3 * time.Second},
		0.0001: {1, 1, 16, 6, 1, 3 * time.Second},
	} {
		if got := Server2Cores.times(times); got != want {
			t.Errorf("%v times: got %+v, want %+v", times, got, want)
		}
	}
	for downtime, want := range map[time.Duration]int{0: 1, 10 * time.Second: 1, 30 * time.Second: 6, 5 * time.Minute: 30} {
		if got := unreadyRetryAfter(downtime); got != want {
			t.Errorf("Retry-After %s after the start: got %d s, want %d s", downtime, got, want)
		}
	}
}

func TestNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, servers)
		for streams, want := range map[int]int{1: 1, streamsPerConnection: 1, streamsPerConnection + 1: 2} {
			n := newNode(c)
			for range streams {
				if _, err := n.open(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := len(n.connections); got != want {
				t.Errorf("%d streams: got %d connections, want %d", streams, got, want)
			}
		}
		c.stop(c.servers[0], c.servers[2])
		c.reset()
		for range 20 {
			if conn, err := newNode(c).open(t.Context()); err != nil || conn.server != c.servers[1] {
				t.Fatalf("got error %v or a server that is down, want the one that is up", err)
			}
		}
		c.stop(c.servers[1])
		if _, err := newNode(c).open(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v with no server up, want a refused connection", err)
		}
		if m, _ := c.reset(); m.attempts != 21 || m.refused != 1 || m.mostNode != 1 {
			t.Errorf("got %+v, want 21 attempts, 1 refused, 1 at a time", m)
		}
	})
}

func TestObjectIsFreshWhileItHasAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		s := &source{node: newNode(c), object: c.newObject()}
		after(time.Second)
		stream, err := s.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, all := c.allFresh(); !all {
			t.Error("got a stale object with a stream, want a fresh one")
		}
		if event, err := stream.Next(); err != nil || event.Type != watch.Bookmark {
			t.Errorf("got %v, %v, want a bookmark within a minute", event.Type, err)
		}
		if got := c.stop(c.servers...); got != 1 {
			t.Errorf("got %d streams lost, want 1", got)
		}
		if _, err := stream.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v after the server stopped, want io.ErrUnexpectedEOF", err)
		}
		if _, all := c.allFresh(); all {
			t.Error("got a fresh object without a stream, want a stale one")
		}
		_ = stream.Close()
		if m, _ := c.reset(); m.stale < time.Second || m.stale > 2*time.Second {
			t.Errorf("got %s of staleness before the stream, want a second and the open", m.stale)
		}
		if streams := s.node.connections[0].streams; streams != 0 {
			t.Errorf("got %d streams on the connection, want 0", streams)
		}
	})
}

// TestAttemptsInAnOutage counts the attempts of one node in a minute.
func TestAttemptsInAnOutage(t *testing.T) {
	const objects = 100
	for name, test := range map[string]struct {
		client      Client
		least, most int
	}{
		// The first ones at once, then one at a time, in the end 2.5 to 5 s apart.
		"gate":                    {Refwatch("", 0), 12, gateOpens + fastProbes + 24},
		"gate with one at a time": {Refwatch("", 1), 12, 1 + fastProbes + 24},
		"no gate":                 {Ungated(), 1200, objects * (1 + fastProbes + 24)},
		// After 0.8 to 1.6 s, twice as much, and so on to 30 to 60 s: 5 to 7 of each object.
		"kubelet": {Kubelet("", 0), 500, 800},
		// As many as the burst allows, then 2 a second.
		"kubelet, 2 QPS": {Kubelet("", 2), 60, 4 + 2*60},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(Server2Cores, 1)
				c.stop(c.servers...)
				node, watch := newNode(c), test.client.node()
				ctx, cancel := context.WithCancel(t.Context())
				for range objects {
					go watch(ctx, &source{node: node, object: c.newObject()})
				}
				after(outage)
				if got := c.refused(); got < test.least || got > test.most {
					t.Errorf("got %d attempts, want %d to %d", got, test.least, test.most)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// TestKubeletWaitsForRetryAfter: it repeats the request every second.
func TestKubeletWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		c.stop(c.servers...)
		c.servers[0].start(4500 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		go Kubelet("", 0).node()(ctx, &source{node: newNode(c), object: c.newObject()})
		after(10 * time.Second)
		if _, all := c.allFresh(); !all {
			t.Error("got no stream after ten seconds, want one")
		}
		if m := c.servers[0].reset(); m.throttled != 5 {
			t.Errorf("got %d answers of 429, want 5: one a second until the cache is ready", m.throttled)
		}
		cancel()
		synctest.Wait()
	})
}
