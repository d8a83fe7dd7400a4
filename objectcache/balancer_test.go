// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
	"github.com/refwatch/refwatch/test/testmain"
)

// deadServers is what a dial of a dead server gets.
var deadServers = map[string]network.Dial{"refuses": network.Refuse, "hangs": network.Hang, "hangs up": network.HangUp}

// kill makes the first of the three servers behind the balancer a dead one: every third
// dial gets to it.
func (b *balanced) kill(dead network.Dial) {
	b.network.OnDial(func(number int) network.Dial {
		if number%3 == 0 {
			return dead
		}
		return nil
	})
	b.network.Each(func(c *network.Conn) {
		if c.Number()%3 == 0 {
			c.Reset()
		}
	})
}

// distant is a server whose answers take 30 ms.
type distant struct{ http.RoundTripper }

func (d distant) RoundTrip(request *http.Request) (*http.Response, error) {
	time.Sleep(30 * time.Millisecond)
	return d.RoundTripper.RoundTrip(request)
}

// balanced is a store behind a balancer, with references to 1,000 Secrets.
type balanced struct {
	*rig

	network *network.Network // the balancer
	gate    *objectcache.Gate
}

const balancedObjects = 1000

func newBalanced(t *testing.T, dead network.Dial) *balanced {
	t.Helper()
	server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
	r := &rig{t: t, server: server, client: server.Client()}
	config := server.Config()
	b := &balanced{rig: r, network: network.New(config.Dial), gate: objectcache.NewGate(objectcache.GateOptions{})}
	b.kill(dead)
	config.Dial = b.network.Dial
	config = resource.ConfigFor(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return distant{next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	r.Store = newStore(t, resource.Secrets(client), objectcache.WatchOptions{Gate: b.gate})
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
	crowd(t)
	if testmain.Race {
		t.Skip("TLS takes minutes: make compat runs it")
	}
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
				t.Logf("start: %v instead of %v, down for %v, %d dials", took, usual, down, b.network.Counts().Dials)
				// One round of answers is short beside the wait for dials that hang: two in a row now and then.
				if took > max(3*usual, 3*time.Second) || down > 0 {
					t.Errorf("start: took %v, and the server was taken for down for %v; without the dead server: %v", took, down, usual)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				b := newBalanced(t, nil)
				defer b.stop()
				b.sync()
				b.kill(dead)
				synctest.Wait()
				took, down := b.sync()
				t.Logf("a server dies: %v, down for %v, %d dials", took, down, b.network.Counts().Dials)
				// While the first dial hangs, nothing shows that the other servers answer.
				if took > max(3*usual, 3*time.Second) || down > time.Second || down > 0 && name != "hangs" {
					t.Errorf("a server dies: the streams were open again after %v, and the server was taken for down for %v", took, down)
				}
			})
		})
	}
}
