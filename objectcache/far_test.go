// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// farRig is a store whose server is far away.
type farRig struct {
	*parkedRig

	roundTrip atomic.Int64 // of requests, if only these are slow
	requests  atomic.Int64 // for objects of the store
	outage    atomic.Bool  // the gate has taken the server for down
}

const farObjects = 41

// inFarBubble runs f with a store of 41 objects that nothing references. Each answer takes a round trip, and with
// connects each connection two more, for TCP and TLS.
func inFarBubble(t *testing.T, roundTrip time.Duration, connects bool, f func(*testing.T, *farRig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &farRig{parkedRig: &parkedRig{rig: &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})}}}
		r.client = r.server.Client()
		for i := range farObjects {
			r.names = append(r.names, fmt.Sprint("tls-", i))
			r.create(r.names[i])
		}
		config := r.server.Config()
		if connects {
			r.network = network.New(network.Far(config.Dial, roundTrip))
		} else {
			r.network = network.New(config.Dial)
			r.roundTrip.Store(int64(roundTrip))
		}
		config.Dial = r.network.Dial
		client, err := kubernetes.NewForConfig(resource.ConfigFor(config))
		if err != nil {
			t.Fatal(err)
		}
		r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			r.requests.Add(1)
			sleepFor(ctx, time.Duration(r.roundTrip.Load()))
			return nil
		})
		gate := objectcache.NewGate(objectcache.GateOptions{})
		r.Store = newStore(t, resource.Secrets(client), objectcache.WatchOptions{Gate: gate})
		r.run()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for ; ctx.Err() == nil; sleepFor(ctx, 50*time.Millisecond) {
				if gate.Status().Cause != nil {
					r.outage.Store(true)
				}
			}
		}()
		f(t, r)
		cancel()
		r.stop()
		time.Sleep(2 * time.Minute) // the connections are closed, and what is under way arrives
	})
}

// synced returns how long it takes until all objects have a stream.
func (r *farRig) synced() (took time.Duration) {
	r.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		took = time.Since(began)
		if r.Stats().OpenStreams == len(r.names) {
			return took
		}
		if took > 10*time.Minute {
			r.t.Fatal("not all objects have a stream after 10 minutes")
		}
	}
}

// A server far away is no sick one. An informer for each of the objects takes one round trip for its list, and three
// with those of TCP and TLS.
func TestFarServer(t *testing.T) {
	for _, roundTrip := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second, 6 * time.Second, 8 * time.Second} {
		for _, connects := range []bool{true, false} {
			for _, awaited := range []bool{true, false} {
				t.Run(fmt.Sprintf("round trip %v, connects %v, callers wait %v", roundTrip, connects, awaited), func(t *testing.T) {
					inFarBubble(t, roundTrip, connects, func(t *testing.T, r *farRig) { testFarServer(t, r, roundTrip, connects, awaited) })
				})
			}
		}
	}
}

func testFarServer(t *testing.T, r *farRig, roundTrip time.Duration, connects, awaited bool) {
	var gets sync.WaitGroup
	for _, name := range r.names {
		r.AddReference(namespace, name, "pod")
		if awaited {
			gets.Go(func() {
				if _, err := r.Get(t.Context(), namespace, name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	took, most, requests := r.synced(), 5*roundTrip/2, int64(farObjects*11/10)
	gets.Wait()
	if connects {
		most += 2 * roundTrip
	} else {
		requests += 12 // repeated ones: the dials were fast, so the first answers seem to be lost
	}
	counts := r.network.Counts()
	t.Logf("%.3g round trips, %d requests, %d dials", took.Seconds()/roundTrip.Seconds(), r.requests.Load(), counts.Dials)
	if most += 50 * time.Millisecond; took > most {
		t.Errorf("all have streams after %v, want at most %v", took, most)
	}
	if got := r.requests.Load(); got > requests {
		t.Errorf("got %d requests for %d objects, want at most %d", got, farObjects, requests)
	}
	if r.outage.Load() {
		t.Error("the server was taken for down")
	}
}

// When all connections to a server far away break, streams are back after the round trips that connections and answers
// take. That is no outage.
func TestFarServerWhoseConnectionsBreak(t *testing.T) {
	for _, roundTrip := range []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second, 8 * time.Second} {
		t.Run(roundTrip.String(), func(t *testing.T) {
			inFarBubble(t, roundTrip, true, func(t *testing.T, r *farRig) {
				for _, name := range r.names {
					r.AddReference(namespace, name, "pod")
				}
				r.synced()
				time.Sleep(time.Minute)
				before, dials := r.requests.Load(), r.network.Counts().Dials
				r.cut()
				synctest.Wait()
				took := r.synced()
				t.Logf("%.3g round trips, %d requests", took.Seconds()/roundTrip.Seconds(), r.requests.Load()-before)
				if most := 9*roundTrip/2 + 2*time.Second; took > most {
					t.Errorf("all have streams again after %v, want at most %v", took, most)
				}
				if got := r.requests.Load() - before; got > farObjects*11/10 {
					t.Errorf("got %d requests for %d objects, want at most a tenth more", got, farObjects)
				}
				if got := r.network.Counts().Dials - dials; got > 1 {
					t.Errorf("got %d dials, want one", got)
				}
				if r.outage.Load() {
					t.Error("the server was taken for down")
				}
			})
		})
	}
}

// The way to a server becomes long, and short again. Requests without an answer are noticed once, and then the answers
// show that the way is long.
func TestWayBecomesLongAndShort(t *testing.T) {
	const near, far = 100 * time.Millisecond, 4 * time.Second
	for _, awaited := range []bool{false, true} {
		t.Run(fmt.Sprint("callers wait ", awaited), func(t *testing.T) {
			inFarBubble(t, near, false, func(t *testing.T, r *farRig) {
				for _, name := range r.names {
					r.AddReference(namespace, name, "pod")
				}
				r.synced()
				for i, change := range []struct {
					roundTrip, most time.Duration
					surprise        bool
				}{{far, 3 * far, true}, {far, 5 * far / 2, false}, {near, time.Second, false}, {near, time.Second, false}} {
					time.Sleep(time.Minute)
					r.roundTrip.Store(int64(change.roundTrip))
					r.outage.Store(false)
					before, began := r.requests.Load(), time.Now()
					if awaited {
						r.demandAll()
					} else {
						r.server.CloseStreams(nil)
						time.Sleep(time.Millisecond)
					}
					r.synced()
					took, requests := time.Since(began), r.requests.Load()-before
					t.Logf("%d, %v away: %v, %d requests", i, change.roundTrip, took, requests)
					if took > change.most || requests > farObjects*11/10+4 {
						t.Errorf("%d, %v away: all have streams again after %v and %d requests, want at most %v", i, change.roundTrip, took, requests, change.most)
					}
					if r.outage.Load() && !change.surprise {
						t.Errorf("%d, %v away: the server was taken for down", i, change.roundTrip)
					}
				}
			})
		})
	}
}

// demandAll gets all objects, as they are now.
func (r *farRig) demandAll() {
	var gets sync.WaitGroup
	for _, name := range r.names {
		gets.Go(func() {
			if _, err := r.GetWithOptions(r.t.Context(), namespace, name, objectcache.GetOptions{Live: true}); err != nil {
				r.t.Error(err)
			}
		})
	}
	gets.Wait()
}

// Many objects need many connections, each of which takes two round trips. That is no sign of a loaded server.
func TestManyObjectsOfAFarServer(t *testing.T) {
	const roundTrip, objects = 500 * time.Millisecond, 1000
	inFarBubble(t, roundTrip, true, func(t *testing.T, r *farRig) {
		for i := farObjects; i < objects; i++ {
			r.names = append(r.names, fmt.Sprint("tls-", i))
			r.create(r.names[i])
		}
		before := r.requests.Load()
		for _, name := range r.names {
			r.AddReference(namespace, name, "pod")
		}
		took, requests := r.synced(), r.requests.Load()-before
		t.Logf("%.3g round trips, %d requests, %d dials", took.Seconds()/roundTrip.Seconds(), requests, r.network.Counts().Dials)
		if took > 12*roundTrip || requests > objects*11/10 {
			t.Errorf("got %v and %d requests, want 12 round trips and a tenth more requests than objects at most", took, requests)
		}
	})
}
