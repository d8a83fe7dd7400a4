// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
)

// job is one measurement: one scenario of one contender, once.
type job struct {
	Scenario, Contender string
	Set                 set
	Samples, Calls      int
	Outage              time.Duration
	Host                string
	TLS                 rest.TLSClientConfig
}

// worker does one job in a process of its own.
type worker struct {
	job
	kind   contender.Kind
	names  []string
	server server
	// config is the contender's. Only its requests are counted, and only in outages.
	config    *rest.Config
	streams   streams
	contender contender.Contender
	loaded    func() // reports to the driver that it may kill the server

	round   results.Round
	seconds float64 // that load took
	failed  atomic.Int64
}

// protobuf returns a configuration that asks for protobuf and has no limit of requests.
func protobuf(config *rest.Config) *rest.Config {
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}

// work reads a job from the input and writes the round to the output. It exits at the end of the input: a worker never
// outlives its driver.
func work(ctx context.Context, input io.Reader, output io.Writer) (err error) {
	decoder, encoder := json.NewDecoder(input), json.NewEncoder(output)
	w := &worker{round: results.Round{Values: map[string]float64{}}}
	if err := decoder.Decode(&w.job); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, input)
		os.Exit(1)
	}()
	if w.kind, err = kindOf(w.job.Contender); err != nil {
		return err
	}
	s, err := scenarioOf(w.job.Scenario)
	if err != nil {
		return err
	}
	for i := range w.Set.Count {
		w.names = append(w.names, nameOf(i))
	}
	w.config = protobuf(&rest.Config{Host: w.Host, TLSClientConfig: w.TLS})
	client, err := kubernetes.NewForConfig(rest.CopyConfig(w.config))
	if err != nil {
		return err
	}
	w.server = server{client}
	w.loaded = func() { _ = encoder.Encode(true) }
	if err := w.server.awaitStreams(ctx, 0); err != nil { // of an earlier worker
		return err
	}
	if err := s.measure(w, ctx); err != nil {
		return err
	}
	return encoder.Encode(w.round)
}

// start starts the contender.
func (w *worker) start(ctx context.Context) (err error) {
	w.contender, err = w.kind.New(ctx, w.config, w.Set.namespace())
	return err
}

// startAndLoad starts the contender and loads all Secrets.
func (w *worker) startAndLoad(ctx context.Context) error {
	if err := w.start(ctx); err != nil {
		return err
	}
	return w.load(ctx, w.Set.pods(secretsPerPod))
}

// load registers pods and gets every Secret.
func (w *worker) load(ctx context.Context, pods []*corev1.Pod) error {
	const getters = 64 // at a time
	began := time.Now()
	for _, pod := range pods {
		w.contender.RegisterPod(pod)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(getters)
	for i := range w.names {
		group.Go(func() error { return w.getFirst(groupCtx, i) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	w.seconds = time.Since(began).Seconds()
	streams := 1
	if w.kind.StreamPerObject {
		streams = w.Set.Count
	}
	return w.server.awaitStreams(ctx, streams)
}

const (
	// getTimeout bounds a Get of a contender that does not give up earlier.
	getTimeout = time.Minute
	// mostFailures is how often a Get may fail before the run does.
	mostFailures = 300
	// retryInterval is the time between two Gets of one Secret.
	retryInterval = 10 * time.Millisecond
)

// getFirst gets a Secret, repeatedly if that fails, and checks that it is the right one.
func (w *worker) getFirst(ctx context.Context, i int) error {
	for failures := 1; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, getTimeout)
		secret, err := w.contender.Get(attempt, w.Set.namespace(), w.names[i])
		cancel()
		if err == nil {
			return w.Set.check(secret, i)
		}
		w.failed.Add(1)
		if failures > mostFailures {
			return fmt.Errorf("getting %s failed %d times: %w", w.names[i], failures, err)
		}
		if err := pause(ctx, retryInterval); err != nil {
			return err
		}
	}
}

// has reports whether Get returns an edition of a Secret.
func (w *worker) has(ctx context.Context, want *corev1.Secret) bool {
	secret, err := w.contender.Get(ctx, want.Namespace, want.Name)
	return err == nil && bytes.Equal(secret.Data[dataKey], want.Data[dataKey])
}
