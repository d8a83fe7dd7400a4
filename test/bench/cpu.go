// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/refwatch/refwatch/test/bench/worker"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// updateInterval is the time between updates: 100 a second.
const updateInterval = 10 * time.Millisecond

// cpuSteps have all contenders at once, because what each uses is counted for its process.
func (b *bench) cpuSteps() []step {
	expect := b.idle + b.updating + 10*time.Second
	for _, kind := range b.contenders {
		expect += loading(kind, b.size)
	}
	var steps []step
	for round := range b.rounds {
		steps = append(steps, step{
			text: fmt.Sprintf("cpu, round %d of %d, all contenders at once", round+1, b.rounds), expect: expect, run: b.measureCPU,
		})
	}
	return steps
}

func (b *bench) measureCPU(ctx context.Context) error {
	set := workload.NewSet("all", b.size)
	var processes []*process
	defer func() {
		for _, p := range processes {
			p.close()
		}
	}()
	for _, kind := range b.contenders {
		p, err := b.worker(ctx, worker.Start{Contender: kind.Name, Set: set})
		if err != nil {
			return err
		}
		processes = append(processes, p)
		if _, err := call[worker.Loaded](ctx, p, worker.OpLoad, nil); err != nil {
			return err
		}
		// Collects the garbage of the load, which would be done in the idle time.
		if _, err := call[worker.Memory](ctx, p, worker.OpMemory, nil); err != nil {
			return err
		}
	}
	idle, err := b.used(ctx, processes, func() error { return worker.Pause(ctx, b.idle) })
	if err != nil {
		return err
	}
	var editions []worker.Edition
	var count int
	busy, err := b.used(ctx, processes, func() (err error) {
		editions, count, err = b.server.updateSteadily(ctx, set, b.updating, updateInterval, &b.edition)
		return err
	})
	if err != nil {
		return err
	}
	for i, kind := range b.contenders {
		if err := do(ctx, processes[i], worker.OpVerify, editions); err != nil {
			return fmt.Errorf("%s: %w", kind.Name, err)
		}
		b.results.Add("cpu", "cpu-idle-ms-per-minute", kind.Name, idle[i]*1000/b.idle.Minutes())
		b.results.Add("cpu", "cpu-updates-ms-per-1000", kind.Name, busy[i]*1000*1000/float64(count))
	}
	return nil
}

// used returns the seconds of CPU that each process uses during an action.
func (b *bench) used(ctx context.Context, processes []*process, action func() error) ([]float64, error) {
	read := func() (seconds []float64, err error) {
		for _, p := range processes {
			one, err := call[float64](ctx, p, worker.OpCPU, nil)
			if err != nil {
				return nil, err
			}
			seconds = append(seconds, one)
		}
		return seconds, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	if err := action(); err != nil {
		return nil, err
	}
	used, err := read()
	for i := range used {
		used[i] -= before[i]
	}
	return used, err
}
