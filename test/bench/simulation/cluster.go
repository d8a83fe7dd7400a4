// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// cluster is the servers and the watched objects.
type cluster struct {
	servers []*server

	mu      sync.Mutex
	objects int
	fresh   int       // objects with a stream
	since   time.Time // when all became fresh, the last time
	meter   clusterMeter
}

// clusterMeter counts since the last reset.
type clusterMeter struct {
	attempts  int
	refused   int // attempts while no server was up
	perSecond perSecond
	mostNode  int           // opens of one node at a time
	stale     time.Duration // the longest time
}

func newCluster(options ServerOptions, servers int) *cluster {
	c := &cluster{}
	for range servers {
		c.servers = append(c.servers, newServer(options))
	}
	return c
}

// balance returns any server that is up, and its life, or nil.
func (c *cluster) balance() (*server, chan struct{}) {
	for _, i := range rand.Perm(len(c.servers)) {
		if life := c.servers[i].life(); life != nil {
			return c.servers[i], life
		}
	}
	return nil, nil
}

// attempt counts an attempt to open a stream, by a node with so many opens.
func (c *cluster) attempt(opening int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.attempts++
	c.meter.perSecond.add()
	c.meter.mostNode = max(c.meter.mostNode, opening)
}

func (c *cluster) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.refused++
}

// refused returns how many attempts were refused since the last reset.
func (c *cluster) refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.meter.refused
}

// stop stops servers at one moment, and returns how many streams they had.
func (c *cluster) stop(servers ...*server) int {
	broken := 0
	for _, s := range servers {
		broken += s.stop()
	}
	return broken
}

// allFresh reports whether all objects are fresh, and since when.
func (c *cluster) allFresh() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.fresh == c.objects
}

// reset returns the counts and begins new ones.
func (c *cluster) reset() (clusterMeter, []serverMeter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.meter
	c.meter = clusterMeter{}
	var servers []serverMeter
	for _, s := range c.servers {
		servers = append(servers, s.reset())
	}
	return m, servers
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
	c.meter.stale = max(c.meter.stale, now.Sub(o.stale))
	if c.fresh++; c.fresh == c.objects {
		c.since = now
	}
}

// pause waits for a time. It returns an error if ctx or the life of a server ends.
func pause(ctx context.Context, life <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-life:
		return io.ErrUnexpectedEOF
	}
}
