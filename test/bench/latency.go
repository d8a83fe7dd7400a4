// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
)

// measureSyncLatency measures how long it takes to register and get all Secrets from a stub server that answers each
// request after a while. Connections and events are not delayed.
func (w *worker) measureSyncLatency(ctx context.Context) error {
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	for name, value := range map[string]float64{
		"seconds":     w.seconds,
		"failed-gets": float64(w.failed.Load()),
		"dials":       float64(w.streams.dials.Load()),
	} {
		w.round.Values[fmt.Sprint("sync-latency-", name, "-", w.Set.Count)] = value
	}
	return nil
}
