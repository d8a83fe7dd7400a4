// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// measureMany opens very many streams, has each deliver one update, and closes them.
func (w *worker) measureMany(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	before, cpuBefore := memoryOfProcess(), cpuOfProcess()
	pods := w.Set.pods(secretsPerPod)
	profile, err := w.startProfile(fineHeap)
	if err != nil {
		return err
	}
	if err := errors.Join(w.load(ctx, pods), profile()); err != nil {
		return err
	}
	cpuOpen := cpuOfProcess()
	open, opened := memoryOfProcess(), w.streams.dials.Load()

	began, cpuQuiet := time.Now(), cpuOfProcess()
	r, err := w.updateAll(ctx)
	if err != nil {
		return err
	}
	updated, cpuUpdated := time.Since(began), cpuOfProcess()

	began = time.Now()
	for _, pod := range pods {
		w.contender.UnregisterPod(pod)
	}
	if err := w.awaitWatches(ctx, 0); err != nil {
		return err
	}
	closed, cpuClosed := time.Since(began), cpuOfProcess()
	left := memoryOfProcess()
	each := float64(w.Set.Count)
	for name, value := range map[string]float64{
		"open-seconds":               w.seconds,
		"open-cpu-seconds":           (cpuOpen - cpuBefore).Seconds(),
		"memory-bytes":               open.heap + open.stacks - before.heap - before.stacks,
		"memory-bytes-per-object":    (open.heap + open.stacks - before.heap - before.stacks) / each,
		"goroutines":                 open.goroutines - before.goroutines,
		"dials":                      float64(opened),
		"connections":                float64(r.Stats.Connections),
		"refused-streams":            float64(r.Stats.Refused),
		"update-seconds":             updated.Seconds(),
		"update-cpu-seconds":         (cpuUpdated - cpuQuiet).Seconds(),
		"close-seconds":              closed.Seconds(),
		"close-cpu-seconds":          (cpuClosed - cpuUpdated).Seconds(),
		"heap-after-close-bytes":     left.heap,
		"goroutines-after-close":     left.goroutines,
		"peak-resident-bytes":        peakOfProcess(),
		"server-peak-resident-bytes": r.Peak,
		"failed-gets":                float64(w.failed.Load()),
	} {
		w.round.Values[fmt.Sprint("many-", name, "-", w.Set.Count)] = value
	}
	return nil
}
