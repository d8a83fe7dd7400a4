// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// measureSync measures how long it takes to register and get all Secrets of a server that is slow or far away.
func (w *worker) measureSync(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	for name, value := range map[string]float64{
		"seconds":     w.seconds,
		"failed-gets": float64(w.failed.Load()),
		"dials":       float64(w.streams.dials.Load()),
	} {
		w.round.Values[fmt.Sprint(w.Scenario, "-", name, "-", w.Set.Count)] = value
	}
	return nil
}
