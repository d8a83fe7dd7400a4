// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"sync"
	"time"
)

// cluster is the servers, and what happens to the watched objects.
type cluster struct {
	options ServerOptions

	mu      sync.Mutex
	servers []*server // nil while down
	objects int
	fresh   int       // objects with a stream
	since   time.Time // when all became fresh, the last time
	outcome Outcome   // since the last reset
}

func newCluster(options ServerOptions, servers int) *cluster {
	c := &cluster{options: options, servers: make([]*server, servers)}
	for i := range servers {
		c.start(i, 0)
	}
	return c
}

// start starts a server. Its watch cache is ready after a delay.
func (c *cluster) start(i int, cacheDelay time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i] = newServer(c, cacheDelay)
}

// stop stops a server, which ends its streams and opens.
func (c *cluster) stop(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[i].stop()
	c.servers[i] = nil
}

// balanceLocked returns any server that is up, or nil.
func (c *cluster) balanceLocked() *server {
	for _, i := range rand.Perm(len(c.servers)) {
		if c.servers[i] != nil {
			return c.servers[i]
		}
	}
	return nil
}

// count calls add under the lock. add changes the outcome.
func (c *cluster) count(add func(*Outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(&c.outcome)
}

// reset returns the outcome and begins a new one.
func (c *cluster) reset() Outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.outcome
	c.outcome = Outcome{}
	return o
}

// allFresh reports whether all objects are fresh, and since when.
func (c *cluster) allFresh() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.fresh == c.objects
}
