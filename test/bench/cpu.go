// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// updatesPerSecond is how many updates the scenarios cpu and neighbour send.
const updatesPerSecond = 100

// steadyWriter updates the Secrets of a set one after another, in a process of its own.
var steadyWriter = scenario{name: "steady-writer", measure: (*worker).updateSteadily, writer: true}

// measureCPU measures the CPU time of this process while all streams are open and another process updates Secrets.
func (w *worker) measureCPU(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	_ = memoryOfProcess() // collects what loading left
	writer := w.job
	writer.Scenario = steadyWriter.name
	profile, err := w.startProfile(usualHeap)
	if err != nil {
		return err
	}
	first, before := newEdition(), cpuOfProcess()
	if _, err := (&bench{}).work(ctx, writer); err != nil {
		return err
	}
	<-time.After(time.Second) // in which the last events arrive
	used := cpuOfProcess() - before
	if err := profile(); err != nil {
		return err
	}
	for n := range w.updates() {
		if _, err := w.awaitEdition(ctx, w.updated(n), first, 10*time.Millisecond); err != nil {
			return err
		}
	}
	w.round.Values["cpu-us-per-update"] = float64(used.Microseconds()) / float64(w.updates())
	return nil
}

// updates is how many updates the period has.
func (w *worker) updates() int { return int(w.Period.Seconds() * updatesPerSecond) }

// updated returns the Secret that the n-th update changes. Two in succession are far from each other, so that they
// share neither a connection nor a CPU's cache.
func (w *worker) updated(n int) int { return n * 37 % w.Set.Count }

// updateSteadily sends the updates at equal intervals.
func (w *worker) updateSteadily(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ticker := time.NewTicker(time.Second / updatesPerSecond)
	defer ticker.Stop()
	for n := range w.updates() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return group.Wait()
		}
		group.Go(func() error {
			secret := w.Set.secret(w.updated(n), newEdition())
			_, err := w.server.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
			if err != nil {
				return fmt.Errorf("updating %s: %w", secret.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}
