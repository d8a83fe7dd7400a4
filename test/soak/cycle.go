// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/history"
)

// Cycle is a part of a run: load, a fault while the load goes on, and then all objects must become fresh.
type Cycle struct {
	// Name is that of the fault. The table at the end has a row for each name.
	Name string
	// WarmUp is the time of load before the fault.
	WarmUp time.Duration
	// Fault injects a fault, and returns when it is healed. The load ends then. An error ends the run.
	Fault func(context.Context, *Load) error
	// Within is how soon all objects must be fresh after the fault and the last write.
	Within time.Duration
	// Calm is set if load without a fault follows, for so long that the rules about time hold again.
	Calm bool
	// Dials is how often all connections may have to be dialed again because of the fault.
	Dials int
}

// Load is the load of a run, as the fault of a [Cycle] sees it.
type Load struct{ soak *soak }

// Quiet calls f while no write is under way. Writes that are due meanwhile are late.
func (l *Load) Quiet(f func() error) error {
	l.soak.quiet.Lock()
	defer l.soak.quiet.Unlock()
	return f()
}

// Count adds to the number of faults with that name, for the table.
func (l *Load) Count(name string, count int) {
	l.soak.mu.Lock()
	defer l.soak.mu.Unlock()
	l.soak.faults[name] += count
}

// Down refuses connections, and cuts those that are open; or it ends that.
func (l *Load) Down(down bool) { l.soak.network.setDown(down) }

// Cut cuts all connections.
func (l *Load) Cut() { l.soak.network.cutAll() }

// Cleanup registers a function for when all objects are fresh.
func (l *Load) Cleanup(f func()) { l.soak.cleanups = append(l.soak.cleanups, f) }

// cycle runs a cycle: everything happens at the same time, then everything must become fresh.
func (s *soak) cycle(c Cycle) {
	s.Helper()
	began := time.Now()
	var fault history.Call
	s.load(c.Name, s.churn, func(ctx context.Context, group *errgroup.Group) error {
		group.Go(func() error { return s.shutDown(ctx, newRandom()) })
		pause(ctx, c.WarmUp)
		fault = s.history.Fault(c.Name, c.Within)
		return c.Fault(ctx, &Load{s})
	})
	s.needed += s.options.connections() * c.Dials
	s.heal(c.Name)
	fault.End()
	healed := time.Now()
	s.settle(c.Name, c.Within, healed.Sub(began))
	for _, cleanup := range s.cleanups {
		cleanup()
	}
	s.cleanups = nil
	if c.Calm {
		s.calm(healed.Add(c.Within))
	}
	s.awaitStreams(c.Name, func(streams int) bool { return streams <= s.streams+len(s.objects) })
}

// task makes a part of the load until the context ends.
type task func(context.Context, *rand.Rand) error

// load makes load until f has returned: writes, Gets, and changes of pods by churn.
func (s *soak) load(name string, churn task, f func(context.Context, *errgroup.Group) error) {
	s.Helper()
	loaded, stop := context.WithCancel(s.ctx)
	defer stop()
	group, ctx := errgroup.WithContext(loaded)
	each := func(count int, run task) {
		for range count {
			group.Go(func() error { return run(ctx, newRandom()) })
		}
	}
	each(writers, s.write)
	each(churners, churn)
	each(readers, s.read)
	group.Go(func() error {
		defer stop()
		return f(ctx, group)
	})
	if err := group.Wait(); err != nil {
		s.Fatalf("%s: %v", name, err)
	}
}

func newRandom() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), 0)) }

// calm makes load without a fault. From a time on all objects are fresh again. The rules hold for what is written, and
// for an object that is referenced, [Options].Fresh later. Of every other cohort, pods are only replaced, so that its
// objects are referenced for so long.
func (s *soak) calm(fresh time.Time) {
	s.Helper()
	s.load("calm", s.churnGently, func(ctx context.Context, _ *errgroup.Group) error {
		pause(ctx, time.Until(fresh)+2*s.options.Fresh)
		return nil
	})
	s.converge("calm", s.options.Fresh)
}

// rest waits until there was neither a write nor a new owner for so long that all Gets must return the newest states
// and Changes must have yielded them.
func (s *soak) rest() {
	s.Helper()
	pause(s.ctx, s.options.Fresh+time.Second)
	if stale := s.stale(); len(stale) > 0 {
		s.violate("rest: %d objects are not fresh, the first: %s", len(stale), stale[0])
	}
	s.endFollower()
}

// quarters are the cycles of a soak: four quarters of the period with faults of the network, and in the third one the
// server crashes.
func (s *soak) quarters() (cycles []Cycle) {
	for number := range 4 {
		c := Cycle{Name: fmt.Sprintf("quarter %d", number+1), Within: s.options.freshWithin()}
		c.Fault = func(ctx context.Context, _ *Load) error {
			ctx, cancel := context.WithTimeout(ctx, s.options.Period/4)
			defer cancel()
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return s.fault(ctx, rand.New(rand.NewPCG(rand.Uint64(), 0))) })
			if number == 2 {
				group.Go(func() error { return s.crash(ctx) })
			}
			return group.Wait()
		}
		switch number {
		case 2:
			c.Dials = 1
		case 3:
			c.Calm = true
		}
		cycles = append(cycles, c)
	}
	return cycles
}
