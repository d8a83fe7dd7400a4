// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/reliability"
)

const (
	// closedWithin is how soon the server must have closed the streams and connections that the managers do not need.
	closedWithin = 30 * time.Second
	// reportInterval is the time between two lines of progress.
	reportInterval = 10 * time.Second
	// streamsPerConnection is how many streams the server allows on a connection.
	streamsPerConnection = 100
	// maxDials is how many times as many connections may be dialed as are needed for the streams. Lists of immutable
	// objects are sent by net/http: while it has no connection, it dials one for each list that is under way.
	maxDials = 4
	// maxRemains is how much of the heap that the objects took may be left when all are unregistered. A run on a real
	// control plane has left 10.2 %. The checker's state is a part of that; how large a part was not measured.
	maxRemains = 0.15
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

// heal ends the faults of the network.
func (s *soak) heal(name string) {
	if overdue := s.network.heal(); overdue > 0 {
		s.violate("%s: %d half-open connections were not noticed within %v", name, overdue, noticedWithin)
	}
}

// settle waits until all objects are fresh, and adds a row to the table. took is how long the cycle has taken.
func (s *soak) settle(name string, within, took time.Duration) {
	s.Helper()
	fresh := s.converge(name, within)
	s.measure(name, fresh)
	s.printf("%6s %s: %v, then all fresh after %v, %d violations\n", time.Since(s.began).Round(time.Second), name,
		took.Round(time.Millisecond), fresh.Round(time.Millisecond), s.checker.Report().Count)
}

// converge creates the objects that are deleted, registers all pods, and waits until all objects are fresh, in the
// managers and at the follower. It returns how long that took.
func (s *soak) converge(name string, within time.Duration) time.Duration {
	s.Helper()
	s.check(s.writeAll(s.ctx, func(o *object) bool { return !o.exists }))
	s.register()
	began := time.Now()
	var stale []string
	for time.Since(began) < within {
		if stale = s.stale(); len(stale) == 0 {
			break
		}
		pause(s.ctx, retryInterval)
	}
	if len(stale) > 0 {
		s.violate("%s: %d objects are not fresh after %v; the first: %s", name, len(stale), within, stale[0])
	}
	took := time.Since(began)
	for _, violation := range s.checker.Report().Violations[s.printed:] {
		s.printf("%s\n", violation)
		s.printed++
	}
	return took
}

// stale gets all referenced objects, and describes those that are not fresh.
func (s *soak) stale() (stale []string) {
	for _, o := range s.objects {
		if o.references.Load() == 0 {
			continue
		}
		get := o.BeginTryGet()
		state, err := o.kind.tryGet(o.name)
		if !get.Return(state, err) {
			stale = append(stale, fmt.Sprintf("%s: Get returned write %q, error %v", o.name, state.Digest, err))
		} else if !s.follower.HasNewest(o.Object) {
			stale = append(stale, o.name+": Changes has not yielded the newest state")
		}
	}
	return stale
}

// countStreams returns how many streams are open on the server.
func (s *soak) countStreams() int {
	s.Helper()
	streams, err := s.server.Streams(s.ctx)
	s.check(err)
	return streams
}

// awaitStreams waits until the server has a number of streams that is allowed.
func (s *soak) awaitStreams(name string, allowed func(int) bool) {
	s.Helper()
	began := time.Now()
	streams := s.countStreams()
	for ; !allowed(streams) && time.Since(began) < closedWithin; streams = s.countStreams() {
		pause(s.ctx, retryInterval)
	}
	if !allowed(streams) {
		s.violate("%s: the server has %d streams for %d objects", name, streams, len(s.objects))
	}
}

// closeAll closes idle connections until none is open. One is not idle before the server has acknowledged the end of
// its streams.
func (s *soak) closeAll(closeIdle func()) {
	began := time.Now()
	for closeIdle(); s.network.counts().open > 0 && time.Since(began) < closedWithin; closeIdle() {
		pause(s.ctx, retryInterval)
	}
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
		n, found := s.network.counts(), s.checker.Report()
		s.printf("%6s %6d objects %6d references %6s streams %4d connections %5d goroutines %4d MiB heap "+
			"%8d states checked %5d stale %3d cuts %3d half open %d violations\n",
			time.Since(s.began).Round(time.Second), stats.Objects, stats.References, streams, n.open, runtime.NumGoroutine(),
			memory.HeapAlloc>>20, found.Checked, stale, n.cuts, n.lost, found.Count)
	}
}

// finish checks what is left, prints the summary, and fails the test if there are violations. before is the heap
// without the objects.
func (s *soak) finish(before float64) {
	s.Helper()
	n := s.network.counts()
	needed := s.needed + n.cuts + n.lost
	if n.established > maxDials*needed {
		s.violate("%d connections were dialed, and %d were needed", n.established, needed)
	}
	if n.open > 0 {
		s.violate("%d connections are left", n.open)
	}
	if s.options.HeapGrowth > 0 {
		s.checkHeap(before)
	}
	found := s.checker.Finish(time.Now())
	if rules := s.undecided(found.Decided); len(rules) > 0 {
		s.Errorf("rules that the run has never decided: %v", rules)
	}
	s.summary(n, needed, before)
	s.recordResults(n)
	for _, violation := range found.Violations {
		s.Error(violation)
	}
	if more := found.Count - len(found.Violations); more > 0 {
		s.Errorf("and %d more violations", more)
	}
}

// checkHeap compares the heap after the second quarter with that after the last, and with what is left at the end.
func (s *soak) checkHeap(before float64) {
	second, last, after := s.rows[2].heap, s.rows[len(s.rows)-2].heap, s.rows[len(s.rows)-1].heap
	growth, remains := (last-second)/second, (after-before)/(last-before)
	s.printf("heap from the second quarter to the last: %+.2f %%; left at the end: %.1f %%\n", 100*growth, 100*remains)
	if limit := s.options.HeapGrowth; growth > limit || remains > maxRemains {
		s.violate("heap: it has grown by %.2f %% from the second quarter to the last, want at most %.2f %%; "+
			"%.1f %% of it is left at the end, want at most %.0f %%", 100*growth, 100*limit, 100*remains, 100*maxRemains)
	}
}

// summary prints what was measured: a row for each name of a cycle.
func (s *soak) summary(n counts, needed int, before float64) {
	table := &strings.Builder{}
	w := tabwriter.NewWriter(table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\tcycles\tall fresh after at most\theap\tgoroutines\t\n")
	for i, r := range s.rows {
		named := func(other row) bool { return other.name == r.name }
		if slices.IndexFunc(s.rows, named) < i {
			continue
		}
		count, slowest := 0, time.Duration(0)
		for _, other := range s.rows[i:] {
			if named(other) {
				count, slowest, r = count+1, max(slowest, other.fresh), other
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%v\t%.1f MiB\t%d\t\n",
			r.name, count, slowest.Round(time.Millisecond), (r.heap-before)/(1<<20), r.goroutines)
	}
	_ = w.Flush()
	s.printf("%s\n", table)
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		s.printf("%5d %s\n", s.faults[name], name)
	}
	found := s.checker.Report()
	s.printf("%d objects, %d references, %v: %d writes, %d changes of pods, %d shutdowns of other managers\n"+
		"%d connections dialed, %d needed, %d dials failed, %d dials were for lists; %d cut, %d half open\n"+
		"%d states checked, %d violations\n",
		len(s.objects), len(s.objects)*podsPerCohort, time.Since(s.began).Round(time.Second),
		s.writes.Load(), s.replaced.Load(), s.shutDowns.Load(), n.established, needed, n.refused, n.lists, n.cuts, n.lost,
		found.Checked, found.Count)
	for _, rule := range slices.Sorted(maps.Keys(found.Decided)) {
		s.printf("%8d times %s\n", found.Decided[rule], rule)
	}
}

// recordResults adds what was counted to the results of all runs.
func (s *soak) recordResults(n counts) {
	s.Helper()
	found := s.checker.Report()
	took := time.Since(s.began).Seconds()
	note := fmt.Sprintf("%d objects, %d references", len(s.objects), len(s.objects)*podsPerCohort)
	results := []reliability.Result{
		{Name: reliability.StatesChecked, Count: found.Checked, Violations: int64(found.Count), Seconds: took, Note: note},
		{Name: reliability.Cycles, Count: int64(len(s.rows) - 2)}, // registered, stopped
		{Name: "writes", Count: s.writes.Load()},
		{Name: "changes of pods", Count: s.replaced.Load()},
		{Name: "connections cut", Count: int64(n.cuts)},
		{Name: "shutdowns of managers under faults", Count: s.shutDowns.Load()},
	}
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		results = append(results, reliability.Result{Name: name, Count: int64(s.faults[name])})
	}
	for _, r := range results {
		r.Part = s.part
		s.check(reliability.Record(r))
	}
}

// violate adds a violation that the run has found itself.
func (s *soak) violate(format string, args ...any) { s.checker.Violate("", "", format, args...) }

// printf writes to the output of the test.
func (s *soak) printf(format string, args ...any) { fmt.Fprintf(s.Output(), format, args...) }
