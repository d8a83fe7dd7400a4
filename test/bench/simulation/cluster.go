// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"time"
)

// cluster is the servers, and the objects that are followed there.
type cluster struct {
	servers []*server

	mu      sync.Mutex
	objects int
	fresh   int
	since   time.Time     // when all were fresh, the last time
	longest time.Duration // that any was stale
	meter   clusterMeter
}

// clusterMeter is what all clients together did.
type clusterMeter struct {
	attempts int
	refused  int           // attempts while no server was up
	bySecond map[int64]int // attempts
	most     int           // opens of one node at once
}

func newCluster(options ServerOptions, servers int) *cluster {
	c := &cluster{}
	for range servers {
		c.servers = append(c.servers, newServer(options))
	}
	return c
}

// balance returns any server that is up, and its life; nil if there is none.
func (c *cluster) balance() (*server, chan struct{}) {
	for _, i := range rand.Perm(len(c.servers)) {
		if life := c.servers[i].life(); life != nil {
			return c.servers[i], life
		}
	}
	return nil, nil
}

// attempt counts one, by a node that has so many under way.
func (c *cluster) attempt(opening int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.attempts++
	if c.meter.bySecond == nil {
		c.meter.bySecond = map[int64]int{}
	}
	c.meter.bySecond[time.Now().Unix()]++
	c.meter.most = max(c.meter.most, opening)
}

// stop takes servers away at one moment, and returns how many streams they had.
func (c *cluster) stop(servers ...*server) int {
	broken := 0
	for _, s := range servers {
		broken += s.stop()
	}
	return broken
}

// refused is how many attempts were, since the last take.
func (c *cluster) refused() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.meter.refused
}

func (c *cluster) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.refused++
}

// take returns what was done since the last take.
func (c *cluster) take() (m clusterMeter, longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, longest = c.meter, c.longest
	c.meter, c.longest = clusterMeter{}, 0
	return m, longest
}

// allFresh tells whether all objects are fresh, and since when.
func (c *cluster) allFresh() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.fresh == c.objects
}

// object is one that is followed. It is fresh while there is a stream.
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
	c.longest = max(c.longest, now.Sub(o.stale))
	if c.fresh++; c.fresh == c.objects {
		c.since = now
	}
}

// pause waits, for as long as neither the context nor a server's life ends.
func pause(ctx context.Context, down <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-down:
		return io.ErrUnexpectedEOF
	}
}
