// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/bench/worker"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// afterUnregister is when the server must have no streams left.
const afterUnregister = time.Second

func (b *bench) memorySteps() []step {
	var steps []step
	for _, size := range b.sizes {
		steps = append(steps, b.warmUp(workload.NewSet("all", size)))
		steps = append(steps, inTurn(b.rounds, b.contenders, fmt.Sprint("memory and sync of ", size),
			func(kind contender.Kind) time.Duration { return loading(kind, size) + 3*time.Second },
			func(ctx context.Context, kind contender.Kind) error { return b.measureMemory(ctx, kind, size) })...)
	}
	return steps
}

// warmUp is a step in which the server does for the first time what it does for every contender, so that the one
// whose turn is first does not pay for it.
func (b *bench) warmUp(set workload.Set) step {
	floor, _ := contender.ByName(results.Floor) // there is one
	return step{
		text: fmt.Sprintf("making and reading %d secrets", set.Count), expect: 2*time.Second + 2*loading(floor, set.Count),
		run: func(ctx context.Context) error {
			p, err := b.worker(ctx, worker.Start{Contender: floor.Name, Set: set})
			if err != nil {
				return err
			}
			defer p.close()
			_, err = call[worker.Loaded](ctx, p, worker.OpLoad, nil)
			return err
		},
	}
}

// worker starts a contender on a set, whose secrets it makes first. Nobody else has a stream then.
func (b *bench) worker(ctx context.Context, start worker.Start) (*process, error) {
	server, err := b.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if err := server.make(ctx, start.Set); err != nil {
		return nil, err
	}
	if start.SecretsPerPod == 0 {
		start.SecretsPerPod = workload.SecretsPerPod
	}
	start.Credentials = server.credentials
	p, err := startProcess(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(ctx, p, worker.OpStart, start); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// alone is worker, once the server has no streams of an earlier one.
func (b *bench) alone(ctx context.Context, start worker.Start) (*process, error) {
	server, err := b.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if err := server.awaitStreams(ctx, 0); err != nil {
		return nil, err
	}
	return b.worker(ctx, start)
}

// loaded is a life of a worker up to the moment when all secrets are there.
type loaded struct {
	worker.Loaded

	before, after             worker.Memory
	serverBefore, serverAfter metrics // before and after the load; only the CPU counts
	serverIdle, serverFull    metrics // the same after garbage collections
}

func (b *bench) measureMemory(ctx context.Context, kind contender.Kind, size int) error {
	set := workload.NewSet("all", size)
	p, err := b.alone(ctx, worker.Start{Contender: kind.Name, Set: set})
	if err != nil {
		return err
	}
	defer p.close()
	l, err := b.load(ctx, p, kind, set)
	if err != nil {
		return err
	}
	b.addLoaded(kind, size, l)
	return b.measureUnregister(ctx, p, kind, size)
}

func (b *bench) load(ctx context.Context, p *process, kind contender.Kind, set workload.Set) (l loaded, err error) {
	if l.before, err = call[worker.Memory](ctx, p, worker.OpMemory, nil); err != nil {
		return l, err
	}
	if l.serverIdle, err = b.collected(ctx); err != nil {
		return l, err
	}
	if l.serverBefore, err = b.server.scrape(ctx); err != nil {
		return l, err
	}
	if l.Loaded, err = call[worker.Loaded](ctx, p, worker.OpLoad, nil); err != nil {
		return l, err
	}
	if l.serverAfter, err = b.server.scrape(ctx); err != nil {
		return l, err
	}
	if err = b.server.awaitStreams(ctx, streamsOf(kind, set)); err != nil {
		return l, err
	}
	if l.after, err = call[worker.Memory](ctx, p, worker.OpMemory, nil); err != nil {
		return l, err
	}
	l.serverFull, err = b.collected(ctx)
	return l, err
}

func (b *bench) collected(ctx context.Context) (metrics, error) {
	if err := b.server.collect(ctx); err != nil {
		return metrics{}, err
	}
	return b.server.scrape(ctx)
}

// streamsOf is how many streams the server has when a contender has synced.
func streamsOf(kind contender.Kind, set workload.Set) int {
	if kind.StreamPerObject {
		return set.Count
	}
	return 1
}

func (b *bench) addLoaded(kind contender.Kind, size int, l loaded) {
	each := float64(size)
	add := func(name string, value float64) {
		b.results.Add("memory", fmt.Sprint(name, "-", size), kind.Name, value)
	}
	add("memory-bytes-per-object", (l.after.Bytes()-l.before.Bytes())/each)
	add("memory-in-use-bytes-per-object", (l.after.InUseBytes()-l.before.InUseBytes())/each)
	add("goroutines-per-object", float64(l.after.Goroutines-l.before.Goroutines)/each)
	add("sync-seconds", l.SyncSeconds)
	add("register-seconds", l.RegisterSeconds)
	add("failed-gets", float64(l.Failed))
	add("server-bytes-per-object", (l.serverFull.heap-l.serverIdle.heap)/each)
	add("server-resident-megabytes", l.serverFull.resident/1e6)
	add("server-cpu-ms-per-object", (l.serverAfter.cpu-l.serverBefore.cpu)*1000/each)
}

// measureUnregister measures what is left when nobody references anything any more.
func (b *bench) measureUnregister(ctx context.Context, p *process, kind contender.Kind, size int) error {
	if err := do(ctx, p, worker.OpUnregister, nil); err != nil {
		return err
	}
	unregistered := time.Now()
	soon, err := call[worker.Memory](ctx, p, worker.OpMemory, nil)
	if err != nil {
		return err
	}
	if err := worker.Pause(ctx, time.Until(unregistered.Add(afterUnregister))); err != nil {
		return err
	}
	server, err := b.server.scrape(ctx)
	if err != nil {
		return err
	}
	later, err := call[worker.Memory](ctx, p, worker.OpMemory, nil)
	if err != nil {
		return err
	}
	if kind.Name == results.Refwatch && server.streams != 0 {
		return fmt.Errorf("%d streams are left %v after the last unregister, want none", server.streams, afterUnregister)
	}
	add := func(name string, value float64) {
		b.results.Add("memory", fmt.Sprint(name, "-", size), kind.Name, value)
	}
	add("heap-after-unregister-bytes", float64(soon.HeapBytes))
	add("heap-1s-after-unregister-bytes", float64(later.HeapBytes))
	add("streams-left", float64(server.streams))
	return nil
}
