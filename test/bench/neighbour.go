// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// neighbours is how many streams share one connection. It leaves room for requests of other kinds.
	neighbours = 90
	// seenInterval is how often Get is called until it returns an update.
	seenInterval = 50 * time.Microsecond
)

// measureNeighbour measures from the stub server's update of a Secret until Get returns it: first when nothing else
// happens, then while another stream of the same connection receives objects of 1 MiB without a pause.
func (w *worker) measureNeighbour(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	for i, pod := range w.Set.pods(1) { // one after another, so that they need one connection
		w.contender.RegisterPod(pod)
		if err := w.getFirst(ctx, i); err != nil {
			return err
		}
		if err := w.awaitWatches(ctx, i+1); err != nil {
			return err
		}
	}
	r, err := w.stub.do(orderNeighbours, 0)
	if err != nil {
		return err
	}
	slices.Sort(r.Neighbours)
	if len(r.Neighbours) < w.Set.Count/2 {
		return fmt.Errorf("%d of %d streams share the connection of the first, want most", len(r.Neighbours), w.Set.Count)
	}
	quiet, err := w.updateEach(ctx, r.Neighbours)
	if err != nil {
		return err
	}
	if _, err := w.stub.do(orderFlood, 0); err != nil {
		return err
	}
	if _, err := w.awaitEdition(ctx, 0, 1, time.Millisecond); err != nil {
		return err
	}
	before, err := w.stub.do(orderStats, 0)
	if err != nil {
		return err
	}
	profile, err := w.startProfile(usualHeap)
	if err != nil {
		return err
	}
	began, cpu := time.Now(), cpuOfProcess()
	busy, err := w.updateEach(ctx, r.Neighbours)
	if err != nil {
		return err
	}
	after, err := w.stub.do(orderStats, 0)
	err = errors.Join(err, profile())
	floods := float64(after.Floods - before.Floods)
	w.round.AddPercentiles("neighbour-quiet", quiet)
	w.round.AddPercentiles("neighbour-busy", busy)
	w.round.Values["neighbour-mib-per-second"] = floods / time.Since(began).Seconds()
	w.round.Values["neighbour-cpu-ms-per-mib"] = float64((cpuOfProcess() - cpu).Milliseconds()) / floods
	return err
}

// updateEach updates Secrets of the stub server one after another, for the period, and returns how long each took.
func (w *worker) updateEach(ctx context.Context, all []int) (took []time.Duration, err error) {
	ticker := time.NewTicker(time.Second / updatesPerSecond)
	defer ticker.Stop()
	for n := range w.updates() {
		<-ticker.C
		i, before := all[n%len(all)], newEdition()
		if err := w.stub.send(orderUpdate, i); err != nil {
			return nil, err
		}
		sent, err := w.awaitEdition(ctx, i, before, seenInterval)
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(time.Unix(0, sent)))
		if _, err := w.stub.reply(); err != nil {
			return nil, err
		}
	}
	return took, nil
}
