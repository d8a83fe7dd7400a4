// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/refwatch/refwatch/objectcache"
)

const (
	// freshWithin is how soon all objects must be fresh after the last fault and the last write.
	freshWithin = 30 * time.Second
	// reportInterval is the time between two lines of progress.
	reportInterval = 10 * time.Second
	// streamsPerConnection is how many streams the server allows on a connection.
	streamsPerConnection = 100
	// maxRemains is how much of the heap that the objects took may be left when all are unregistered.
	maxRemains = 0.1
)

// row is what was measured when all objects were fresh.
type row struct {
	name       string
	fresh      time.Duration // until all objects were
	heap       float64       // bytes
	goroutines int
}

// heap returns the bytes of the heap that are in use after a collection.
func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what finalizers and pools held
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

func (s *soak) measure(name string, fresh time.Duration) {
	s.rows = append(s.rows, row{name, fresh, heap(), runtime.NumGoroutine()})
}

// settle ends the faults, creates the objects that are deleted, registers all pods, and waits until all objects are
// fresh, in the managers and at the followers.
func (s *soak) settle(name string) {
	s.Helper()
	if overdue := s.network.heal(); overdue > 0 {
		s.history.Violate("%s: %d half-open connections were not noticed within %v", name, overdue, noticedWithin)
	}
	s.register()
	s.check(s.writeAll(s.ctx, func(o *object) bool { return !o.Exists() }))
	began := time.Now()
	var stale []string
	for time.Since(began) < freshWithin {
		if stale = s.stale(); len(stale) == 0 {
			break
		}
		pause(s.ctx, retryInterval)
	}
	if len(stale) > 0 {
		s.history.Violate("%s: %d objects are not fresh after %v; the first: %s", name, len(stale), freshWithin, stale[0])
	}
	s.measure(name, time.Since(began))
}

// stale gets all referenced objects, and describes those that are not fresh.
func (s *soak) stale() (stale []string) {
	for _, o := range s.objects {
		if !o.Referenced() {
			continue
		}
		get := o.BeginGet()
		state, err := o.kind.tryGet(o.name)
		if !get.Return(state, err) {
			stale = append(stale, fmt.Sprintf("%s: Get returned write %d, error %v", o.name, state.Write, err))
		} else if !o.YieldedNewest() {
			stale = append(stale, o.name+": Changes has not yielded the newest state")
		}
	}
	return stale
}

// streams returns how many streams are open on the server.
func (s *soak) streams() int {
	s.Helper()
	streams, err := s.server.Streams(s.ctx)
	s.check(err)
	return streams
}

// awaitStreams waits until the server has as many open streams as before the run.
func (s *soak) awaitStreams(want int) {
	s.Helper()
	began := time.Now()
	streams := s.streams()
	for ; streams != want && time.Since(began) < freshWithin; streams = s.streams() {
		pause(s.ctx, retryInterval)
	}
	if streams != want {
		s.history.Violate("unregistered: the server has %d streams, and had %d before the run", streams, want)
	}
}

// closeAll closes idle connections until none is open. One is not idle before the server has acknowledged the end of
// its streams.
func (s *soak) closeAll(closeIdle func()) {
	began := time.Now()
	for closeIdle(); s.network.counts().open > 0 && time.Since(began) < freshWithin; closeIdle() {
		pause(s.ctx, retryInterval)
	}
}

// connections returns how many connections the streams of all objects need.
func (s *soak) connections() int {
	return (len(s.objects) + streamsPerConnection - 1) / streamsPerConnection
}

// report writes a line of progress at intervals until ctx ends.
func (s *soak) report(ctx context.Context) {
	for pause(ctx, reportInterval) {
		streams := "?"
		if count, err := s.server.Streams(ctx); err == nil {
			streams = fmt.Sprint(count)
		}
		stats := objectcache.SumStats(s.kinds[0].stats(), s.kinds[1].stats())
		stale := len(s.stale())
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		n := s.network.counts()
		_, violations := s.history.Violations()
		s.printf("%6s %6d objects %6d references %6s streams %4d connections %5d goroutines %4d MiB heap "+
			"%8d states checked %5d stale %3d cuts %3d half open %d violations\n",
			time.Since(s.began).Round(time.Second), stats.Objects, stats.References, streams, n.open, runtime.NumGoroutine(),
			memory.HeapAlloc>>20, s.history.Checked(), stale, n.cuts, n.lost, violations)
	}
}

// finish checks what is left, prints the summary, and fails the test if there are violations. before is the heap
// without the objects.
func (s *soak) finish(before float64) {
	s.Helper()
	second, last, after := s.rows[2].heap, s.rows[4].heap, s.rows[5].heap
	growth, remains := (last-second)/second, (after-before)/(last-before)
	if limit := s.options.HeapGrowth; limit > 0 && (growth > limit || remains > maxRemains) {
		s.history.Violate("heap: it has grown by %.2f %% from the second quarter to the last, want at most %.2f %%; "+
			"%.1f %% of it is left at the end, want at most %.0f %%", 100*growth, 100*limit, 100*remains, 100*maxRemains)
	}
	n := s.network.counts()
	needed := s.connections()*(1+s.crashes) + n.cuts + n.lost
	if n.established > 2*needed {
		s.history.Violate("%d connections were dialed, and %d were needed", n.established, needed)
	}
	if n.open > 0 {
		s.history.Violate("%d connections are left", n.open)
	}
	s.summary(n, needed, growth, remains, before)
	violations, count := s.history.Violations()
	for _, violation := range violations {
		s.Error(violation)
	}
	if count > len(violations) {
		s.Errorf("and %d more violations", count-len(violations))
	}
}

// summary prints what was measured.
func (s *soak) summary(n counts, needed int, growth, remains, before float64) {
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tall fresh after\theap\tgoroutines\t\n")
	for _, r := range s.rows {
		fmt.Fprintf(w, "%s\t%v\t%.1f MiB\t%d\t\n", r.name, r.fresh.Round(time.Millisecond), (r.heap-before)/(1<<20), r.goroutines)
	}
	_ = w.Flush()
	_, violations := s.history.Violations()
	unchecked := ""
	if s.options.HeapGrowth == 0 {
		unchecked = " (not checked)"
	}
	s.printf("%s\n%d objects, %d references, %v: %d writes, %d changes of pods\n"+
		"%d connections dialed, %d needed, %d dials failed; %d cut, %d half open, %d crashes of the server\n"+
		"heap from the second quarter to the last: %+.2f %%; left at the end: %.1f %%%s\n%d states checked, %d violations\n",
		table, len(s.objects), len(s.objects)*podsPerCohort, time.Since(s.began).Round(time.Second),
		s.writes.Load(), s.replaced.Load(), n.established, needed, n.refused, n.cuts, n.lost, s.crashes,
		100*growth, 100*remains, unchecked, s.history.Checked(), violations)
}

// printf writes to the output of the test.
func (s *soak) printf(format string, args ...any) { fmt.Fprintf(s.Output(), format, args...) }
