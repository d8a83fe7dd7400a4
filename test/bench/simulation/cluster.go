// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"sync"
	"time"
)

// cluster is the servers and the watched objects.
type cluster struct {
	options ServerOptions

	mu       sync.Mutex
	servers  []*server // nil while down
	objects  int
	fresh    int       // objects with a stream
	since    time.Time // when all became fresh, the last time
	outcome  Outcome   // since the last reset
	attempts perSecond
}

// perSecond counts events in the current second.
type perSecond struct {
	second int64
	count  int
}

// add returns the count with one more event.
func (p *perSecond) add() int {
	if second := time.Now().Unix(); second != p.second {
		p.second, p.count = second, 0
	}
	p.count++
	return p.count
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

// object is a watched object. It is fresh while it has a stream.
type object struct {
	cluster *cluster
	fresh   bool      // guarded by cluster.mu
	stale   time.Time // since when
}

func (c *cluster) newObject() *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects++
	return &object{cluster: c, stale: time.Now()}
}

func (o *object) setFresh(fresh bool) {
	c := o.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.fresh == fresh {
		return
	}
	o.fresh = fresh
	now := time.Now()
	if !fresh {
		o.stale = now
		c.fresh--
		return
	}
	c.outcome.Stale = max(c.outcome.Stale, now.Sub(o.stale))
	if c.fresh++; c.fresh == c.objects {
		c.since = now
	}
}
