// SPDX-License-Identifier: Apache-2.0

package simulation

import (
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

// tiny opens ten streams a second, one at a time, and has room for four that wait.
var tiny = ServerOptions{OpensPerSecond: 10, Seats: 1, Queues: 4, HandSize: 2, QueueLength: 2}

// opened counts how opens ended.
type opened struct {
	mu                    sync.Mutex
	open, throttled, lost int
	last                  time.Duration // of the opens
}

// openAll opens n streams of one client at once. wait returns when all opens have ended.
func openAll(t *testing.T, c *cluster, n int) (o *opened, wait func()) {
	var all sync.WaitGroup
	began, server := time.Now(), c.servers[0]
	o = &opened{}
	for range n {
		all.Go(func() {
			ctx, cancel := server.bind(t.Context())
			defer cancel()
			err := server.open(ctx, 1)
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
	return o, all.Wait
}

func TestServerBounds(t *testing.T) {
	for opens, want := range map[int]*opened{
		1:  {open: 1, last: 100 * time.Millisecond},
		5:  {open: 5, last: 500 * time.Millisecond},
		99: {open: 5, last: 500 * time.Millisecond, throttled: 94},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(tiny, 1)
			got, wait := openAll(t, c, opens)
			wait()
			if got.open != want.open || got.throttled != want.throttled || got.last != want.last {
				t.Errorf("%d opens: got %d open and %d throttled after %s, want %d and %d after %s", opens,
					got.open, got.throttled, got.last, want.open, want.throttled, want.last)
			}
		})
	}
}

func TestServerThrottlesLongWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := tiny
		slow.OpensPerSecond, slow.QueueLength = 1, 20
		c := newCluster(slow, 1)
		got, wait := openAll(t, c, 20)
		wait()
		if got.open < 14 || got.throttled == 0 || got.open+got.throttled != 20 {
			t.Errorf("got %d open and %d throttled, want those of 15 s open and the others throttled", got.open, got.throttled)
		}
		again, wait := openAll(t, c, 1)
		if wait(); again.open != 1 {
			t.Error("got a full queue after its waiters were throttled, want room")
		}
	})
}

func TestServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(tiny, 1)
		got, wait := openAll(t, c, 5)
		after(250 * time.Millisecond)
		c.stop(0)
		if wait(); got.open != 2 || got.lost != 3 {
			t.Errorf("got %d open and %d lost, want 2 and 3", got.open, got.lost)
		}
		c.start(0, time.Second)
		unready, wait := openAll(t, c, 1)
		if wait(); unready.throttled != 1 {
			t.Error("got no 429 while the cache is not ready, want one")
		}
		after(time.Second)
		ready, wait := openAll(t, c, 5)
		if wait(); ready.open != 5 {
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
		c.stop(0)
		c.stop(2)
		c.reset()
		for range 20 {
			if conn, err := newNode(c).open(t.Context()); err != nil || conn.server != c.servers[1] {
				t.Fatalf("got error %v or a server that is down, want the one that is up", err)
			}
		}
		c.stop(1)
		if _, err := newNode(c).open(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("got %v with no server up, want a refused connection", err)
		}
		if o := c.reset(); o.Attempts != 21 || o.Refused != 1 || o.PeakNode != 1 {
			t.Errorf("got %+v, want 21 attempts, 1 refused, 1 at a time", o)
		}
	})
}

func TestObjectIsFreshWhileItHasAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		s := newSource(newNode(c))
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
		c.stop(0)
		if _, err := stream.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v after the server stopped, want io.ErrUnexpectedEOF", err)
		}
		_ = stream.Close()
		if _, all := c.allFresh(); all {
			t.Error("got a fresh object without a stream, want a stale one")
		}
		if o := c.reset(); o.Broken != 1 {
			t.Errorf("got %d streams lost, want 1", o.Broken)
		}
		if streams := s.connections[0].streams; streams != 0 {
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
				c.stop(0)
				node, watch := newNode(c), test.client.node()
				for range objects {
					go watch(t.Context(), newSource(node))
				}
				after(outage)
				if got := c.reset().Refused; got < test.least || got > test.most {
					t.Errorf("got %d attempts, want %d to %d", got, test.least, test.most)
				}
			})
		})
	}
}

// TestKubeletWaitsForRetryAfter: it repeats the request every second.
func TestKubeletWaitsForRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(Server2Cores, 1)
		c.start(0, 4500*time.Millisecond)
		go Kubelet("", 0).node()(t.Context(), newSource(newNode(c)))
		after(10 * time.Second)
		if _, all := c.allFresh(); !all {
			t.Error("got no stream after ten seconds, want one")
		}
		if got := c.reset().Throttled; got != 5 {
			t.Errorf("got %d answers of 429, want 5: one a second until the cache is ready", got)
		}
	})
}
