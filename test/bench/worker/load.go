// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/bench/workload"
)

const (
	// getters is how many Gets are made at once.
	getters = 64
	// getTimeout is what a Get may take before it counts as failed, if the contender does not give up by itself.
	getTimeout = time.Minute
	// patience is how often a Get may fail before the run does.
	patience = 300
)

// load registers all pods and gets every secret.
func (w *worker) load(ctx context.Context, _ none) (Loaded, error) {
	began := time.Now()
	for _, pod := range w.pods {
		w.contender.RegisterPod(pod)
	}
	loaded := Loaded{RegisterSeconds: time.Since(began).Seconds()}
	var failed atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(getters)
	for _, name := range w.names {
		group.Go(func() error { return w.getUntilThere(ctx, name, &failed) })
	}
	err := group.Wait()
	loaded.SyncSeconds = time.Since(began).Seconds()
	loaded.Failed = int(failed.Load())
	return loaded, err
}

// getUntilThere gets a secret, again if that fails, and checks that it is the right one.
func (w *worker) getUntilThere(ctx context.Context, name string, failed *atomic.Int64) error {
	for attempt := 0; ; attempt++ {
		attemptCtx, cancel := context.WithTimeout(ctx, getTimeout)
		secret, err := w.contender.Get(attemptCtx, w.set().Namespace, name)
		cancel()
		if err == nil {
			return w.set().Check(secret, name)
		}
		failed.Add(1)
		if attempt == patience || ctx.Err() != nil {
			return fmt.Errorf("getting %s for the %d. time: %w", name, attempt+1, err)
		}
		// A contender that fails at once must not keep a core busy.
		if err := Pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func (w *worker) unregister(context.Context, none) (none, error) {
	for _, pod := range w.pods {
		w.contender.UnregisterPod(pod)
	}
	return none{}, nil
}

// verify gets each secret until it is the given edition.
func (w *worker) verify(ctx context.Context, editions []Edition) (none, error) {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	for _, edition := range editions {
		want := workload.Value(edition.Name, edition.Edition)
		for {
			secret, err := w.contender.Get(ctx, w.set().Namespace, edition.Name)
			if err == nil && bytes.Equal(workload.ValueOf(secret), want) {
				break
			}
			if Pause(ctx, 10*time.Millisecond) != nil {
				return none{}, fmt.Errorf("%s does not become edition %d (last error: %w)", edition.Name, edition.Edition, err)
			}
		}
	}
	return none{}, nil
}

const (
	// collections are made before memory is measured. Each halves the stacks that are too large.
	collections = 8
	// settled is the time between them, for goroutines that are about to end.
	settled = 50 * time.Millisecond
)

func (w *worker) memory(ctx context.Context, _ none) (Memory, error) {
	for range collections {
		runtime.GC()
		if err := Pause(ctx, settled); err != nil {
			return Memory{}, err
		}
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return Memory{
		HeapBytes: stats.HeapAlloc, HeapInUseBytes: stats.HeapInuse, StackBytes: stats.StackInuse,
		Goroutines: runtime.NumGoroutine(),
	}, nil
}

// Pause waits for so long, or returns the error of ctx.
func Pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
