// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// balancer stands before three API servers, and gives them the connections in turn. The
// first of them may be dead.
type balancer struct {
	server func(ctx context.Context, network, address string) (net.Conn, error)
	dead   func(context.Context) (net.Conn, error) // nil while all servers are alive

	mu    sync.Mutex
	dials int
	conns []net.Conn // of the first server
}

func (b *balancer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	first, dead := b.dials%3 == 0, b.dead
	b.dials++
	b.mu.Unlock()
	if first && dead != nil {
		return dead(ctx)
	}
	c, err := b.server(ctx, network, address)
	if first && err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.conns = append(b.conns, c)
	}
	return c, err
}

// kill ends the connections of the first server, which is dead from now on.
func (b *balancer) kill(dead func(context.Context) (net.Conn, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dead = dead
	for _, c := range b.conns {
		_ = c.Close()
	}
}

// deadServers is what a dial of a dead server gets.
var deadServers = map[string]func(context.Context) (net.Conn, error){
	"refuses": func(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") },
	"hangs": func(ctx context.Context) (net.Conn, error) {
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second): // client-go's
		}
		return nil, errors.New("i/o timeout")
	},
	"hangs up": func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		return client, server.Close()
	},
}

// distant is a server whose answers take 30 ms.
type distant struct{ http.RoundTripper }

func (d distant) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(30 * time.Millisecond)
	return d.RoundTripper.RoundTrip(request)
}

// balanced is a store behind a balancer, with a reference to each of 1,000 Secrets.
type balanced struct {
	*rig

	balancer *balancer
	gate     *objectcache.Gate
}

const balancedObjects = 1000

func newBalanced(t *testing.T, dead func(context.Context) (net.Conn, error)) *balanced {
	t.Helper()
	server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
	r := &rig{t: t, server: server, client: server.Client()}
	for i := range balancedObjects {
		r.create(fmt.Sprint("s", i))
	}
	config := server.Config()
	b := &balanced{rig: r, balancer: &balancer{server: config.Dial, dead: dead}, gate: objectcache.NewGate(objectcache.GateOptions{})}
	config.Dial = b.balancer.dial
	config = objectcache.ConfigFor(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return distant{next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Store = newStore(t, objectcache.Secrets(client), objectcache.WatchOptions{Gate: b.gate})
	r.run()
	for i := range balancedObjects {
		r.AddReference(namespace, fmt.Sprint("s", i), "pod")
	}
	return b
}

// sync returns how long it takes until all streams are open, and how long the gate takes
// the server for down meanwhile.
func (b *balanced) sync() (took, down time.Duration) {
	b.t.Helper()
	const step = 5 * time.Millisecond
	for took < 5*time.Minute {
		time.Sleep(step)
		took += step
		if b.gate.Status().Cause != nil {
			down += step
		}
		if b.Stats().OpenStreams == balancedObjects {
			return took, down
		}
	}
	b.t.Fatal("some streams are not open after five minutes")
	return took, down
}

// One dead server of three behind a load balancer makes a start at most three times as
// slow, and is no outage. The same holds when the server dies later.
func TestOneDeadServerOfThree(t *testing.T) {
	var usual time.Duration
	synctest.Test(t, func(t *testing.T) {
		b := newBalanced(t, nil)
		defer b.stop()
		usual, _ = b.sync()
	})
	for name, dead := range deadServers {
		t.Run("a server "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBalanced(t, dead)
				defer b.stop()
				took, down := b.sync()
				t.Logf("start: %v instead of %v, down for %v, %d dials", took, usual, down, b.balancer.dials)
				if took > 3*usual || down > 0 {
					t.Errorf("start: took %v, and the server was taken for down for %v; without the dead server: %v", took, down, usual)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				b := newBalanced(t, nil)
				defer b.stop()
				b.sync()
				b.balancer.kill(dead)
				synctest.Wait()
				took, down := b.sync()
				t.Logf("a server dies: %v, down for %v, %d dials", took, down, b.balancer.dials)
				// While the first dial hangs, nothing shows that the other servers answer.
				if took > 3*usual || down > time.Second || down > 0 && name != "hangs" {
					t.Errorf("a server dies: the streams were open again after %v, and the server was taken for down for %v", took, down)
				}
			})
		})
	}
}
