// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// scenario measures some figures.
type scenario struct {
	name     string
	measure  func(*worker, context.Context) error
	takes    func(contender.Kind) bool
	allSizes bool          // measured with every size
	sizes    []int         // of its own sets
	bytes    int           // of a Secret's value, 0 for secretBytes
	ownSet   bool          // has a set of its own
	outage   time.Duration // of the server
	latency  time.Duration // of an answer of the stub server
	away     time.Duration // the round trip that the contender's connections have in addition
	stub     bool          // runs on the stub server
	writer   bool          // only writes, while another scenario measures
	long     bool          // omitted by a quick run
	noGet    bool          // of a user that may list and watch only
	rounds   int           // at most, of a scenario whose round takes minutes; 0 for any number
}

// scenarios are all scenarios in their order.
var scenarios = []scenario{
	{name: "memory", measure: (*worker).measureMemory, takes: all, allSizes: true},
	{name: "sync-busy", measure: (*worker).measureSyncBusy, takes: all},
	{name: "first-get", measure: (*worker).measureFirstGet, takes: all, ownSet: true},
	{name: "first-get-busy", measure: (*worker).measureFirstGetBusy, takes: all, ownSet: true, long: true},
	{name: "cold-start", measure: (*worker).measureColdStart, takes: inColdStarts, sizes: []int{coldStarts}, noGet: true, long: true},
	{name: "cold-start-get", measure: (*worker).measureColdStart, takes: inColdStarts, sizes: []int{coldStarts}, long: true},
	{
		name: "cold-start-referenced", measure: (*worker).measureColdStartReferenced, takes: inColdStarts, sizes: []int{coldStarts},
		noGet: true, long: true,
	},
	{name: "command", measure: (*worker).measureCommand, takes: inCommands, sizes: []int{50}, long: true},
	{name: "get-after-delete", measure: (*worker).measureDeletion, takes: inDeletions, sizes: []int{deletions}, long: true},
	{name: "get", measure: (*worker).measureGet, takes: all},
	{name: "register", measure: (*worker).measureRegister, takes: registrars},
	{name: "update", measure: (*worker).measureUpdate, takes: all},
	{name: "update-stub", measure: (*worker).measureUpdateStub, takes: streamPerObject, stub: true},
	{name: "cpu", measure: (*worker).measureCPU, takes: all},
	{name: "bookmarks", measure: (*worker).measureBookmarks, takes: inBookmarks, long: true, rounds: 2},
	{name: "churn", measure: (*worker).measureChurn, takes: onStub, stub: true},
	{name: "neighbour", measure: (*worker).measureNeighbour, takes: onStub, sizes: []int{neighbours}, stub: true},
	{name: "outage-2s", measure: (*worker).measureOutage, takes: inOutages, outage: 2 * time.Second},
	{name: "outage-60s", measure: (*worker).measureOutage, takes: inOutages, outage: time.Minute, long: true, rounds: 3},
	{name: "cut-4kB", measure: (*worker).measureCut, takes: streamPerObject, sizes: []int{1000}, bytes: 4000, long: true},
	{name: "cut-100kB", measure: (*worker).measureCut, takes: streamPerObject, sizes: []int{500}, bytes: 100_000, long: true},
	{name: "cut-1MiB", measure: (*worker).measureCut, takes: streamPerObject, sizes: []int{100}, bytes: 1 << 20, long: true},
	{name: "far-100ms", measure: (*worker).measureSync, takes: streamPerObject, sizes: farSizes, away: 100 * time.Millisecond, long: true},
	{
		name: "far-500ms", measure: (*worker).measureSync, takes: streamPerObject, sizes: append(farSizes, 1000),
		away: 500 * time.Millisecond, long: true,
	},
	{name: "far-1400ms", measure: (*worker).measureSync, takes: streamPerObject, sizes: farSizes, away: 1400 * time.Millisecond, long: true},
	{name: "far-4s", measure: (*worker).measureSync, takes: streamPerObject, sizes: farSizes, away: 4 * time.Second, long: true},
	{
		name: "far-in-turn", measure: (*worker).measureInTurn, takes: streamPerObject, sizes: farSizes,
		away: 500 * time.Millisecond, long: true,
	},
	{
		name: "sync-latency", measure: (*worker).measureSync, takes: streamPerObject,
		latency: 1400 * time.Millisecond, stub: true, long: true,
	},
	{name: "growth", measure: (*worker).measureGrowth, takes: onlyRefwatch, sizes: []int{1000, 10_000, 100_000}, stub: true, long: true, rounds: 3},
	{name: "many", measure: (*worker).measureMany, takes: inMany, sizes: []int{100_000}, stub: true, long: true, rounds: 3},
}

// farSizes is how many Secrets are synced with a server far away: those of two pods, and one more.
var farSizes = []int{2*secretsPerPod + 1}

var warmUpScenario = scenario{name: "warm-up", measure: (*worker).startAndLoad, takes: all}

func all(kind contender.Kind) bool             { return !kind.Special }
func registrars(kind contender.Kind) bool      { return !kind.Special && kind.Registrar != nil }
func inOutages(kind contender.Kind) bool       { return !kind.Special && kind.InOutages }
func streamPerObject(kind contender.Kind) bool { return !kind.Special && kind.StreamPerObject }

// inBookmarks accepts refwatch with and without followers of Changes: a round takes a minute.
func inBookmarks(kind contender.Kind) bool {
	return kind.Name == contender.RefwatchFollowed || inOutages(kind)
}

// inColdStarts accepts refwatch with and without WatchOptions.FirstReadMaxAge.
func inColdStarts(kind contender.Kind) bool {
	return kind.Name == contender.RefwatchRecent || all(kind)
}

// inCommands accepts a client that keeps nothing, too.
func inCommands(kind contender.Kind) bool {
	return kind.Name == contender.Direct || all(kind)
}

// inDeletions accepts the contenders whose Get returns the NotFound of apimachinery.
func inDeletions(kind contender.Kind) bool {
	switch kind.Name {
	case contender.Refwatch, contender.Kubelet, contender.ControllerRuntime, contender.Adapter, contender.Direct:
		return true
	}
	return false
}

func onlyRefwatch(kind contender.Kind) bool { return kind.Name == contender.Refwatch }

// onStub accepts the contenders that the scenarios of a single connection compare.
func onStub(kind contender.Kind) bool {
	switch kind.Name {
	case contender.Refwatch, contender.RefwatchNetHTTP, contender.Kubelet, contender.Floor:
		return true
	}
	return false
}

// inMany accepts refwatch: very many streams take others minutes and many gigabytes.
func inMany(kind contender.Kind) bool {
	return kind.Name == contender.Refwatch || kind.Name == contender.RefwatchNetHTTP && !kind.Special
}

const (
	// warmUps is how many first Gets are not counted. They open the connection.
	warmUps = 5
	// afterUnregister is when the server must have no streams left.
	afterUnregister = time.Second
)

func (w *worker) measureMemory(ctx context.Context) error {
	pods := w.Set.pods(secretsPerPod)
	if err := w.start(ctx); err != nil {
		return err
	}
	serverBefore, err := w.server.memory(ctx)
	if err != nil {
		return err
	}
	before := memoryOfProcess()
	metricsBefore, err := w.server.metrics(ctx)
	if err != nil {
		return err
	}
	profile, err := w.startProfile(fineHeap)
	if err != nil {
		return err
	}
	load := func() error { return errors.Join(w.load(ctx, pods), profile()) }
	figure := fmt.Sprint("control-plane-cpu-ms-per-object-", w.Set.Count)
	if err := w.controlPlaneCPU(figure, time.Duration(w.Set.Count)*time.Millisecond, load); err != nil {
		return err
	}
	metrics, err := w.server.metrics(ctx)
	if err != nil {
		return err
	}
	server, err := w.server.memory(ctx)
	if err != nil {
		return err
	}
	after, dials := memoryOfProcess(), w.streams.dials.Load()
	for _, pod := range pods {
		w.contender.UnregisterPod(pod)
	}
	unregistered := time.Now()
	left := memoryOfProcess()
	<-time.After(time.Until(unregistered.Add(afterUnregister)))
	last, err := w.server.metrics(ctx)
	if w.kind.Name == contender.Refwatch && last.watches != 0 {
		return fmt.Errorf("%d streams are left %v after the last unregister, want none", last.watches, afterUnregister)
	}
	each := float64(w.Set.Count)
	for name, value := range map[string]float64{
		"sync-seconds":                w.seconds,
		"failed-gets":                 float64(w.failed.Load()),
		"memory-bytes-per-object":     (after.heap + after.stacks - before.heap - before.stacks) / each,
		"goroutines-per-object":       (after.goroutines - before.goroutines) / each,
		"server-bytes-per-object":     (server - serverBefore) / each,
		"server-cpu-ms-per-object":    (metrics.cpu - metricsBefore.cpu) * 1000 / each,
		"heap-after-unregister-bytes": left.heap,
		"streams-left":                float64(last.watches),
		"dials":                       float64(dials),
	} {
		w.round.Values[fmt.Sprint(name, "-", w.Set.Count)] = value
	}
	return err
}

// memory is the memory of this process, in bytes, and its number of goroutines.
type memory struct{ heap, stacks, goroutines float64 }

// memoryOfProcess measures the memory after garbage collections. Each halves the stacks that are too large. Stacks
// count: a deeper stack in the goroutines of each stream shows.
func memoryOfProcess() memory {
	const collections, interval = 9, 50 * time.Millisecond
	for range collections {
		<-time.After(interval) // in which goroutines end
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return memory{float64(stats.HeapAlloc), float64(stats.StackInuse), float64(runtime.NumGoroutine())}
}

// measureFirstGet registers pods with one Secret each, one after another. It measures from RegisterPod to the end of
// the first Get.
func (w *worker) measureFirstGet(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	var took []time.Duration
	for i, pod := range w.Set.pods(1) {
		began := time.Now()
		w.contender.RegisterPod(pod)
		secret, err := w.contender.Get(ctx, pod.Namespace, w.names[i])
		took = append(took, time.Since(began))
		if err == nil {
			err = w.Set.check(secret, i)
		}
		if err != nil {
			return err
		}
	}
	w.round.AddPercentiles(w.Scenario, took[warmUps:])
	return nil
}

// addCost has goroutines share a number of calls, and adds the cost of one. As in testing.B.RunParallel, the time is
// that of all calls divided by their number.
func (w *worker) addCost(name string, goroutines, calls int, run func(offset, calls int) error) error {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	var group errgroup.Group
	for g := range goroutines {
		group.Go(func() error { return run(g*calls/goroutines, calls/goroutines) })
	}
	err := group.Wait()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	calls = calls / goroutines * goroutines
	w.round.Values[name+"-ns"] = float64(took) / float64(calls)
	// Rounded down, as package testing does: the rest of the process allocates, too.
	w.round.Values[name+"-bytes"] = float64((after.TotalAlloc - before.TotalAlloc) / uint64(calls))
	return err
}

// measureGet measures calls of Get from one goroutine, and from one per CPU. The calls get all Secrets in order.
func (w *worker) measureGet(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	namespace := w.Set.namespace()
	run := func(offset, calls int) error {
		at := offset % len(w.names)
		for range calls {
			secret, err := w.contender.Get(ctx, namespace, w.names[at])
			if err != nil || secret.Name != w.names[at] {
				return fmt.Errorf("getting %s again: got another Secret, or an error: %w", w.names[at], err)
			}
			if at++; at == len(w.names) {
				at = 0
			}
		}
		return nil
	}
	if err := run(0, len(w.names)); err != nil { // a warm-up
		return err
	}
	if err := w.addCost("get", 1, w.Calls, run); err != nil {
		return err
	}
	return w.addCost("get-all-cores", runtime.GOMAXPROCS(0), w.Calls, run)
}

// measureRegister measures RegisterPod and UnregisterPod of one pod.
func (w *worker) measureRegister(context.Context) error {
	registrar, err := w.kind.Registrar()
	if err != nil {
		return err
	}
	pod := set{Name: "register", Count: secretsPerPod}.pods(secretsPerPod)[0]
	run := func(_, calls int) error {
		for range calls {
			registrar.RegisterPod(pod)
			registrar.UnregisterPod(pod)
		}
		return nil
	}
	_ = run(0, 100) // a warm-up
	return w.addCost("register-unregister", 1, w.Calls/10, run)
}

// measureUpdate updates one Secret after another.
func (w *worker) measureUpdate(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	var sinceSent, sinceResponse []time.Duration
	for n := range w.Samples {
		sent, response, seen, err := w.update(ctx, w.updated(n))
		if err != nil {
			return err
		}
		sinceSent = append(sinceSent, seen.Sub(sent))
		sinceResponse = append(sinceResponse, seen.Sub(response)) // negative where Get was earlier
	}
	w.round.AddPercentiles("update-to-get", sinceSent)
	w.round.AddPercentiles("update-response-to-get", sinceResponse)
	return nil
}

// measureUpdateStub measures from the stub server's update of a Secret until Get returns it, one after another. It is
// the client's part of update.
func (w *worker) measureUpdateStub(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	var secrets []int
	for n := range w.names {
		secrets = append(secrets, w.updated(n))
	}
	took, err := w.updateEach(ctx, secrets)
	w.round.AddPercentiles("update-stub", took)
	return err
}
