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
	// Rolling restarts one server after another, a minute apart. Each is away
	// for 30 seconds.
	Rolling Event = "rolling restart"
	// Outage takes all servers away at once, for a minute.
	Outage Event = "outage"
	// Start is that of all clients at once.
	Start Event = "start"
)

// Scenario is one play.
type Scenario struct {
	Nodes, References int // references of each node
	Server            ServerOptions
	Client            Client
	Event             Event
}

const (
	// servers is how many there are.
	servers = 3
	// away is for how long a server is that restarts, and apart the time
	// between two restarts.
	away, apart = 30 * time.Second, time.Minute
	// outage is for how long all servers are away.
	outage = time.Minute
	// spread is the time in which references appear when their start is not
	// the event. Settled is long enough for every back-off to be forgotten.
	spread, settled = 2 * time.Minute, 3 * time.Minute
	// patience is how long it is waited for all objects to be fresh in the end.
	patience = 30 * time.Minute
	// never is longer than all that was waited for.
	never = 24 * time.Hour
)

// Phase is what happened between one event and the next.
type Phase struct {
	// Attempts counts the opens that were sent, or would have been; Refused
	// are those for which no server was up, Late those of them in the second
	// half of an outage; Throttled were answered 429.
	Attempts, Refused, Late, Throttled int
	// PeakAttempts is the most in a second, of all clients. PeakArrived is
	// the most that reached one server in a second.
	PeakAttempts, PeakArrived int
	// PeakServer is the most opens in one server at once, waiting or not;
	// PeakNode the most of one node.
	PeakServer, PeakNode int
	// Broken is how many streams the event ended.
	Broken int
	// Fresh is how long it took until all objects were, from the event; in an
	// outage, from when the servers were back and ready. Never: they were not
	// before the next event, or in half an hour.
	Fresh time.Duration
	// Stale is the longest that any object was.
	Stale time.Duration
}

// Run plays a scenario. It must be called in a bubble of testing/synctest, and
// returns when all that it started has ended.
func (s Scenario) Run(ctx context.Context) []Phase {
	c := newCluster(s.Server, servers)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel() // before the wait
	began := time.Now()
	for range s.Nodes {
		node, follow := newNode(c), s.Client.node()
		for range s.References {
			var delay time.Duration
			if s.Event != Start {
				delay = rand.N(spread)
			}
			source := &source{node: node, object: c.newObject()}
			running.Go(func() {
				if pause(ctx, nil, delay) == nil {
					follow(ctx, source)
				}
			})
		}
	}
	if s.Event == Start {
		c.await(patience)
		return []Phase{c.phase(began)}
	}
	after(spread + settled)
	_ = c.phase(began) // forget it
	if s.Event == Outage {
		return []Phase{s.outage(c)}
	}
	return s.restarts(c)
}

func (s Scenario) restarts(c *cluster) (phases []Phase) {
	for i, server := range c.servers {
		began := time.Now()
		broken := c.stop(server)
		after(away)
		server.start(s.Server.CacheDelay)
		after(apart - away)
		if i == len(c.servers)-1 {
			c.await(patience)
		}
		phase := c.phase(began)
		phase.Broken = broken
		phases = append(phases, phase)
	}
	return phases
}

func (s Scenario) outage(c *cluster) Phase {
	broken := c.stop(c.servers...)
	after(outage / 2)
	early := c.refused()
	after(outage - outage/2)
	late := c.refused() - early
	for _, server := range c.servers {
		server.start(s.Server.CacheDelay)
	}
	ready := time.Now().Add(s.Server.CacheDelay)
	c.await(patience)
	phase := c.phase(ready)
	phase.Broken, phase.Late = broken, late
	return phase
}

// after returns when so much time has passed.
func after(d time.Duration) { <-time.After(d) }

// await returns when all objects are fresh, or after so long.
func (c *cluster) await(limit time.Duration) {
	for end := time.Now().Add(limit); time.Now().Before(end); after(time.Second) {
		if _, all := c.allFresh(); all {
			return
		}
	}
}

// phase tells what happened since the last call.
func (c *cluster) phase(began time.Time) Phase {
	clients, longest := c.take()
	p := Phase{
		Attempts: clients.attempts, Refused: clients.refused, PeakAttempts: largest(clients.bySecond),
		PeakNode: clients.most, Stale: longest, Fresh: never,
	}
	if since, all := c.allFresh(); all {
		p.Fresh = since.Sub(began)
	}
	for _, server := range c.servers {
		m := server.take()
		p.Throttled += m.throttled
		p.PeakServer = max(p.PeakServer, m.most)
		p.PeakArrived = max(p.PeakArrived, largest(m.arrived))
	}
	return p
}

func largest(counts map[int64]int) int {
	most := 0
	for _, count := range counts {
		most = max(most, count)
	}
	return most
}

// row is a scenario's phases in one: sums, peaks, and the last one's end. each is
// Fresh of all.
type row struct {
	Phase

	each []time.Duration
}

func summarise(phases []Phase) row {
	var r row
	for _, p := range phases {
		r.Attempts += p.Attempts
		r.Refused += p.Refused
		r.Late += p.Late
		r.Throttled += p.Throttled
		r.Broken += p.Broken
		r.PeakAttempts = max(r.PeakAttempts, p.PeakAttempts)
		r.PeakArrived = max(r.PeakArrived, p.PeakArrived)
		r.PeakServer = max(r.PeakServer, p.PeakServer)
		r.PeakNode = max(r.PeakNode, p.PeakNode)
		r.Stale = max(r.Stale, p.Stale)
		r.Fresh = p.Fresh
		r.each = append(r.each, p.Fresh)
	}
	return r
}
