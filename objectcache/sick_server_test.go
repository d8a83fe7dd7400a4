// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// twoServers is a store behind a balancer that dials two servers in turn. They share their
// objects.
type twoServers struct {
	*rig

	network *network.Network // the balancer
	gate    *objectcache.Gate
	added   int

	mu     sync.Mutex
	oldest *tls.ConnectionState
	answer http.HandlerFunc
}

// withTwoServers runs test in a bubble, with a store that has references to 110 Secrets, so
// that each server has one connection with room.
func withTwoServers(t *testing.T, test func(t *testing.T, r *twoServers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		r := &twoServers{rig: &rig{t: t, server: server, client: server.Client()}, gate: objectcache.NewGate(objectcache.GateOptions{})}
		server.Wrap(r.serve)
		config := server.Config()
		r.network = network.New(config.Dial)
		config.Dial = r.network.Dial
		client, err := kubernetes.NewForConfig(resource.ConfigFor(config))
		if err != nil {
			t.Fatal(err)
		}
		r.Store = newStore(t, resource.Secrets(client), objectcache.WatchOptions{Gate: r.gate})
		r.run()
		defer func() {
			r.stop()
			r.network.Each((*network.Conn).Reset) // also one that is frozen
			synctest.Wait()
		}()
		r.reference(110)
		r.remove(0, 20)
		if got := r.network.Counts().Open; got != 2 {
			t.Fatalf("got %d connections, want 2", got)
		}
		test(t, r)
	})
}

// reference adds references to n more Secrets, and returns how long the slowest first Get
// takes.
func (r *twoServers) reference(n int) (slowest time.Duration) {
	r.t.Helper()
	began := time.Now()
	took := make(chan time.Duration)
	for range n {
		name := fmt.Sprint("s", r.added)
		r.added++
		r.create(name)
		r.AddReference(namespace, name, "pod")
		go func() {
			ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
			defer cancel()
			if _, err := r.Get(ctx, namespace, name); err != nil {
				r.t.Errorf("Get of %s: %v", name, err)
			}
			took <- time.Since(began)
		}()
	}
	for range n {
		slowest = max(slowest, <-took)
	}
	return slowest
}

// remove removes the references from one Secret to another, so that their connection has
// room.
func (r *twoServers) remove(from, to int) {
	for i := from; i < to; i++ {
		r.DeleteReference(namespace, fmt.Sprint("s", i), "pod")
	}
	time.Sleep(time.Second)
}

// wantServed checks that first Gets are fast, that no outage is seen, and that few
// connections are dialled.
func (r *twoServers) wantServed(limit time.Duration, dials int) {
	r.t.Helper()
	before := r.network.Counts().Dials
	if took := r.reference(1); took > limit {
		r.t.Errorf("the first Get took %v, want %v at most", took, limit)
	}
	if took := r.reference(20); took > limit {
		r.t.Errorf("the slowest of the next 20 took %v, want %v at most", took, limit)
	}
	if cause := r.gate.Status().Cause; cause != nil {
		r.t.Errorf("an outage was seen: %v", cause)
	}
	if got := r.network.Counts().Dials - before; got > dials {
		r.t.Errorf("got %d dials, want %d at most", got, dials)
	}
}

// A server that stops keeps its connections. New references go to the other one, or to a
// new connection, within two seconds, and not when the health check has ended the
// connection.
func TestStoppedServerOfTwo(t *testing.T) {
	t.Run("the other has room", func(t *testing.T) {
		withTwoServers(t, func(t *testing.T, r *twoServers) {
			r.freeze(0)
			r.wantServed(2*time.Second, 1) // a connection of client-go's transport, for hedged reads
		})
	})
	t.Run("none has room", func(t *testing.T) {
		withTwoServers(t, func(t *testing.T, r *twoServers) {
			r.network.Each(func(c *network.Conn) {
				if c.Number() == 1 {
					c.Reset()
				}
			})
			time.Sleep(10 * time.Second)
			r.remove(20, 60)
			r.freeze(0)
			r.wantServed(2*time.Second, 2)
		})
	})
}

func (r *twoServers) freeze(number int) {
	r.network.Each(func(c *network.Conn) {
		if c.Number() == number {
			c.Freeze()
		}
	})
}

// A server that has lost its etcd answers PINGs and no openings. New references go to
// another connection within two seconds.
func TestServerWithoutEtcdOfTwo(t *testing.T) {
	withTwoServers(t, func(t *testing.T, r *twoServers) {
		r.fail(func(w http.ResponseWriter, request *http.Request) { <-request.Context().Done() })
		r.wantServed(2*time.Second, 1)
	})
}

// A connection whose new streams are reset, while the old ones live, is left at once.
func TestPoisonedConnectionOfTwo(t *testing.T) {
	withTwoServers(t, func(t *testing.T, r *twoServers) {
		r.fail(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }) // INTERNAL_ERROR
		r.wantServed(2*time.Second, 1)
		if got := r.Stats().OpenStreams; got != 90+21 {
			t.Errorf("got %d open streams, want %d: the old ones live", got, 90+21)
		}
	})
}

// fail answers the watches on the oldest connection from now on.
func (r *twoServers) fail(answer http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// serve passes watches to the server, unless fail says otherwise. Requests of one connection
// have the same state of TLS.
func (r *twoServers) serve(w http.ResponseWriter, request *http.Request, parsed apiserver.Request, next http.HandlerFunc) {
	if parsed.Verb == "watch" {
		r.mu.Lock()
		if r.oldest == nil {
			r.oldest = request.TLS
		}
		answer := r.answer
		r.mu.Unlock()
		if answer != nil && r.oldest == request.TLS {
			answer(w, request)
			return
		}
	}
	next(w, request)
}
