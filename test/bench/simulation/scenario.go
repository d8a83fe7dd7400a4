// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Event is what happens to the servers.
type Event string

const (
	// Rolling restarts one server after another, a minute apart. Each is down for 30 seconds.
	Rolling Event = "rolling restart"
	// Outage stops all servers at once, for a minute.
	Outage Event = "outage"
	// Start starts all clients at once.
	Start Event = "start"
)

// Scenario is a simulation of one event.
type Scenario struct {
	Nodes, References int // references of each node
	Server            ServerOptions
	Client            Client
	Event             Event
}

const (
	servers = 3
	// down is for how long a server is down in a rolling restart, apart the time between two restarts.
	down, apart = 30 * time.Second, time.Minute
	// outage is for how long all servers are down.
	outage = time.Minute
	// spread is the time in which references appear before an event. After settled every back-off is over.
	spread, settled = 2 * time.Minute, 3 * time.Minute
	// patience is how long a scenario waits at the end until all objects are fresh.
	patience = 30 * time.Minute
	// never is longer than any scenario.
	never = 24 * time.Hour
)

// Outcome counts what happened since the event.
type Outcome struct {
	// Broken is how many streams the event ended.
	Broken int
	// Attempts counts opens. Of these, Refused found no server up, Late did so in the second half of an outage, and
	// Throttled were answered with 429.
	Attempts, Refused, Late, Throttled int
	// PeakNode is the most opens of one node at a time.
	PeakNode int
	// Fresh is the time until all objects were fresh: from each restart, from the start, or from when the servers were
	// ready after an outage. It is never if they were not before the next restart, or in half an hour.
	Fresh []time.Duration
}

// end returns the last of Fresh.
func (o Outcome) end() time.Duration { return o.Fresh[len(o.Fresh)-1] }

// Run runs a scenario in a bubble of testing/synctest. It returns when everything that it started has ended.
func (s Scenario) Run(ctx context.Context) Outcome {
	c := newCluster(s.Server, servers)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before the wait
	began := time.Now()
	for range s.Nodes {
		node, watch := newNode(c), s.Client.node()
		for range s.References {
			var delay time.Duration
			if s.Event != Start {
				delay = rand.N(spread)
			}
			source := newSource(node)
			running.Go(func() {
				if pause(ctx, delay) == nil {
					watch(ctx, source)
				}
			})
		}
	}
	if s.Event != Start {
		after(spread + settled)
		c.reset()
	}
	switch s.Event {
	case Start:
		c.await(began)
	case Outage:
		c.outage()
	case Rolling:
		c.restarts()
	}
	return c.reset()
}

func (c *cluster) restarts() {
	for i := range c.servers {
		began := time.Now()
		c.stop(i)
		after(down)
		c.start(i, c.options.CacheDelay)
		after(apart - down)
		if i == len(c.servers)-1 {
			c.await(began)
		} else {
			c.addFresh(began)
		}
	}
}

func (c *cluster) outage() {
	for i := range c.servers {
		c.stop(i)
	}
	after(outage / 2)
	c.count(func(o *Outcome) { o.Late = -o.Refused })
	after(outage / 2)
	c.count(func(o *Outcome) { o.Late += o.Refused })
	for i := range c.servers {
		c.start(i, c.options.CacheDelay)
	}
	c.await(time.Now().Add(c.options.CacheDelay))
}

// after returns after a time.
func after(d time.Duration) { <-time.After(d) }

// await waits until all objects are fresh, and calls addFresh.
func (c *cluster) await(began time.Time) {
	for end := time.Now().Add(patience); time.Now().Before(end); after(time.Second) {
		if _, all := c.allFresh(); all {
			break
		}
	}
	c.addFresh(began)
}

func (c *cluster) addFresh(began time.Time) {
	took := never
	if since, all := c.allFresh(); all {
		took = since.Sub(began)
	}
	c.count(func(o *Outcome) { o.Fresh = append(o.Fresh, took) })
}
