// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// churned is how many pods are replaced every churnInterval.
	churned       = 5
	churnInterval = 100 * time.Millisecond
)

// measureChurn replaces pods for the period, and counts the dials from the first on.
func (w *worker) measureChurn(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	pods := w.Set.pods(secretsPerPod)
	ticker := time.NewTicker(churnInterval)
	defer ticker.Stop()
	cpu, replaced := cpuOfProcess(), 0
	for next, end := 0, time.Now().Add(w.Period); time.Now().Before(end); <-ticker.C {
		for range min(churned, len(pods)) {
			pod := pods[next%len(pods)]
			next++
			w.contender.UnregisterPod(pod)
			w.contender.RegisterPod(pod)
			replaced += len(pod.Spec.Volumes)
		}
	}
	var group errgroup.Group
	group.SetLimit(churned)
	for i := range w.names {
		group.Go(func() error { return w.getFirst(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	used := cpuOfProcess() - cpu
	if err := w.awaitWatches(ctx, w.Set.Count); err != nil {
		return err
	}
	r, err := w.stub.do(orderStats, 0)
	for name, value := range map[string]float64{
		"dials":             float64(w.streams.dials.Load()),
		"connections":       float64(r.Stats.Connections),
		"refused-streams":   float64(r.Stats.Refused),
		"cpu-us-per-object": float64(used.Microseconds()) / float64(replaced),
	} {
		w.round.Values[fmt.Sprint("churn-", name, "-", w.Set.Count)] = value
	}
	return err
}
