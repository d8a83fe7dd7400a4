// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// measure has so many goroutines call run with a number of calls that adds up to count, and returns the wall time
// and the allocations of one call. As with testing.B.RunParallel, time is that of all calls divided by their number.
func measure(goroutines, count int, run func(offset, count int) error) (Cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	var group errgroup.Group
	for g := range goroutines {
		group.Go(func() error { return run(g*count/goroutines, count/goroutines) })
	}
	err := group.Wait()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	calls := count / goroutines * goroutines
	return Cost{
		Nanoseconds: float64(took.Nanoseconds()) / float64(calls),
		// Rounded down, as package testing does: what the rest of the process does meanwhile is not the call's.
		Bytes:  float64((after.TotalAlloc - before.TotalAlloc) / uint64(calls)),
		Allocs: float64((after.Mallocs - before.Mallocs) / uint64(calls)),
	}, err
}

// get measures a Get of secrets that are there, each in turn.
func (w *worker) get(ctx context.Context, count int) (costs Costs, err error) {
	run := func(offset, count int) error {
		at := offset % len(w.names)
		for range count {
			secret, err := w.contender.Get(ctx, w.set().Namespace, w.names[at])
			if err != nil {
				return fmt.Errorf("getting %s, which was there before: %w", w.names[at], err)
			}
			if secret.Name != w.names[at] {
				return fmt.Errorf("getting %s: got %s", w.names[at], secret.Name)
			}
			if at++; at == len(w.names) {
				at = 0
			}
		}
		return nil
	}
	if err := run(0, len(w.names)); err != nil { // nothing is done for the first time below
		return costs, err
	}
	if costs.Alone, err = measure(1, count, run); err != nil {
		return costs, err
	}
	costs.AllCores, err = measure(runtime.GOMAXPROCS(0), count, run)
	return costs, err
}

// firstGet registers pods with one secret each, one after another, and returns the milliseconds from RegisterPod to
// the end of the first Get. A few before them, which are not counted, open the connection.
func (w *worker) firstGet(ctx context.Context, count int) ([]float64, error) {
	var took []float64
	if count > len(w.pods) {
		return nil, fmt.Errorf("%d pods are too few for %d first Gets", len(w.pods), count)
	}
	for i, pod := range w.pods {
		began := time.Now()
		w.contender.RegisterPod(pod)
		secret, err := w.contender.Get(ctx, pod.Namespace, w.names[i])
		duration := time.Since(began)
		if err != nil {
			return nil, err
		}
		if err := w.set().Check(secret, w.names[i]); err != nil {
			return nil, err
		}
		if i >= len(w.pods)-count {
			took = append(took, milliseconds(duration))
		}
	}
	return took, nil
}

// RegisterArgs say what [OpRegister] measures.
type RegisterArgs struct {
	Contender string `json:"contender"`
	Count     int    `json:"count"`
}

// register measures RegisterPod and UnregisterPod of one pod. It needs no server.
func (w *worker) register(_ context.Context, args RegisterArgs) (registered Registered, err error) {
	pod := workload.NewSet("register", workload.SecretsPerPod).Pods(workload.SecretsPerPod)[0]
	cost := func(registrar contender.Registrar) (*Cost, error) {
		run := func(_, count int) error {
			for range count {
				registrar.RegisterPod(pod)
				registrar.UnregisterPod(pod)
			}
			return nil
		}
		_ = run(0, 100) // as a warm-up; it cannot fail
		cost, err := measure(1, args.Count, run)
		return &cost, err
	}
	registrar, err := contender.OverNothing(args.Contender)
	if err == nil && registrar != nil {
		registered.OverNothing, err = cost(registrar)
	}
	if err != nil {
		return registered, err
	}
	registrar, err = contender.OverIdleStore(args.Contender)
	if err == nil && registrar != nil {
		registered.OverIdleStore, err = cost(registrar)
	}
	return registered, err
}

// cpu returns the seconds of CPU that this process has used, in user and kernel mode.
func (w *worker) cpu(context.Context, none) (float64, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("asking for the CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(), nil
}

func milliseconds(duration time.Duration) float64 {
	return float64(duration) / float64(time.Millisecond)
}
