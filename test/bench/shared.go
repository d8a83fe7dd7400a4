// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/bench/contender"
)

const (
	// sharedReferences is how many Secrets of the namespace are referenced.
	sharedReferences = 300
	// foreignUpdates is how many updates of other Secrets are sent, foreignWriters at a time.
	foreignUpdates, foreignWriters = 4000, 8
)

// sharers are the contenders that keep few objects of a namespace with many.
func sharers(kind contender.Kind) bool {
	return kind.Name == contender.Refwatch || kind.Name == contender.RefwatchShared || kind.Name == contender.ControllerRuntime
}

// foreignWriter updates Secrets that no pod references, in a process of its own.
var foreignWriter = scenario{name: "foreign-writer", measure: (*worker).updateForeign, writer: true}

// measureShared references some Secrets of a namespace. It measures memory, and the CPU that the process takes to sync,
// and for updates of Secrets that are not referenced.
func (w *worker) measureShared(ctx context.Context) error {
	pods := slices.Clone(w.Set.pods(secretsPerPod)[:sharedReferences/secretsPerPod])
	w.names = slices.Clone(w.names[:sharedReferences])
	if err := w.start(ctx); err != nil {
		return err
	}
	serverBefore, err := w.server.memory(ctx)
	if err != nil {
		return err
	}
	before, cpuBefore := memoryOfProcess(), cpuOfProcess()
	if err := w.load(ctx, pods); err != nil {
		return err
	}
	serverAfter, err := w.server.memory(ctx)
	if err != nil {
		return err
	}
	after := memoryOfProcess()
	cpuIdle := cpuOfProcess()
	writer := w.job
	writer.Scenario = foreignWriter.name
	if _, err := (&bench{}).work(ctx, writer); err != nil {
		return err
	}
	<-time.After(time.Second) // in which the last events arrive
	cpuUpdated := cpuOfProcess()
	for name, value := range map[string]float64{
		"sync-seconds":       w.seconds,
		"memory-bytes":       after.heap + after.stacks - before.heap - before.stacks,
		"server-bytes":       serverAfter - serverBefore,
		"sync-cpu-ms":        (w.cpu - cpuBefore).Seconds() * 1000,
		"cpu-us-per-foreign": float64((cpuUpdated - cpuIdle).Microseconds()) / foreignUpdates,
		"goroutines":         after.goroutines - before.goroutines,
	} {
		w.round.Values[fmt.Sprint("shared-", name, "-", w.Set.Count)] = value
	}
	return nil
}

// updateForeign updates Secrets that no pod references.
func (w *worker) updateForeign(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(foreignWriters)
	for i := range foreignUpdates {
		group.Go(func() error {
			secret := w.Set.secret(sharedReferences+i%(w.Set.Count-sharedReferences), newEdition())
			_, err := w.server.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
			return err
		})
	}
	return group.Wait()
}
