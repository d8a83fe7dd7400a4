// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/refwatch/refwatch/test/network"
)

// A client is at rest when it has received at most restBytes and used at most restCPU in restPeriod: bookmarks and
// PINGs of open streams are less.
const (
	restPeriod = time.Second
	restBytes  = 16 << 10
	restCPU    = 100 * time.Millisecond
)

// streamAge is how long streams are left alone before the cut: client-go's reflectors list again, instead of resuming
// the watch, after one that ended within a second.
const streamAge = 2 * time.Second

// cutSample is what the client has used until one moment.
type cutSample struct {
	sample
	cpu time.Duration
}

func (w *worker) cutSample() cutSample { return cutSample{w.streams.sample(), cpuOfProcess()} }

// measureCut loads Secrets of one size, and then cuts all connections once. It measures until all streams are open
// again and the client is at rest: then it has received and handled the objects that it reads again.
func (w *worker) measureCut(ctx context.Context) error {
	const sampleInterval, recoveryTimeout = 50 * time.Millisecond, 5 * time.Minute
	connections := w.streams.countBytes(w.config)
	w.streams.countRequests(w.config)
	if err := w.start(ctx); err != nil {
		return err
	}
	before := memoryOfProcess()
	if err := w.load(ctx, w.Set.pods(secretsPerPod)); err != nil {
		return err
	}
	after := memoryOfProcess()
	<-time.After(streamAge)
	var all []cutSample // from the cut on
	at := -1            // the sample that ends the recovery
	size := strings.TrimPrefix(w.Scenario, "cut-")
	err := w.controlPlaneCPU("cut-control-plane-cpu-seconds-"+size, time.Second, func() error {
		all = append(all, w.cutSample())
		connections.Each((*network.Conn).Reset)
		return wait.PollUntilContextTimeout(ctx, sampleInterval, recoveryTimeout, false, func(context.Context) (bool, error) {
			all = append(all, w.cutSample())
			at = recovered(all, int64(w.Set.Count))
			return at >= 0, nil
		})
	})
	if err != nil {
		return fmt.Errorf("waiting for all streams after the cut, of which %d are open: %w", w.streams.open.Load(), err)
	}
	if err := w.verifyStreams(ctx); err != nil {
		return err
	}
	for name, value := range map[string]float64{
		"sync-seconds":            w.seconds,
		"memory-bytes-per-object": (after.heap + after.stacks - before.heap - before.stacks) / float64(w.Set.Count),
		"cut-seconds":             all[at].at.Sub(all[0].at).Seconds(),
		"cut-bytes":               float64(all[at].received - all[0].received),
		"cut-client-cpu-seconds":  (all[at].cpu - all[0].cpu).Seconds(),
		"cut-dials":               float64(all[at].dials - all[0].dials),
	} {
		w.round.Values[name+"-"+size] = value
	}
	return nil
}

// recovered returns the first sample after the first from which all streams were open, and the client was at rest, or
// -1. The first samples may have streams whose end the client has not noticed.
func recovered(all []cutSample, streams int64) int {
	last := all[len(all)-1]
	for i := len(all) - 1; i > 0; i-- {
		since := all[i]
		if since.open < streams || last.received-since.received > restBytes || last.cpu-since.cpu > restCPU {
			return -1
		}
		if last.at.Sub(since.at) >= restPeriod {
			return i
		}
	}
	return -1
}
