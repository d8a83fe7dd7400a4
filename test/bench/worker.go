// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/network"
)

// job is one measurement: one scenario of one contender, once.
type job struct {
	Scenario, Contender string
	Set                 set
	Samples, Calls      int
	Outage, Period      time.Duration
	Latency             time.Duration // of the stub server's answers
	Away                time.Duration // the round trip that the contender's connections have in addition
	ControlPlane        []int         // the process IDs of kube-apiserver and etcd
	Profiles            string        // the folder, "" for none
	Host                string
	TLS                 rest.TLSClientConfig
	ContenderTLS        *rest.TLSClientConfig // nil: TLS
	DisableCompression  bool
}

// worker does one job in a process of its own.
type worker struct {
	job
	kind   contender.Kind
	names  []string
	server server
	stub   *stubServer // in place of server
	// watches returns how many watches the server has.
	watches func(context.Context) (int, error)
	// config is the contender's. Its dials are counted, and in outages its requests.
	config    *rest.Config
	streams   streams
	contender contender.Contender
	loaded    func() // reports to the driver that it may kill the server

	round   results.Round
	seconds float64       // that load took
	cpu     time.Duration // of this process, after it
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
	if s.stub {
		w.stub, w.config, err = startStub(ctx, stubOptions{w.Set, w.Latency})
	} else {
		w.config = &rest.Config{Host: w.Host, TLSClientConfig: w.TLS}
		w.server.Interface, err = kubernetes.NewForConfig(protobuf(rest.CopyConfig(w.config)))
		if w.ContenderTLS != nil {
			w.config.TLSClientConfig = *w.ContenderTLS
		}
	}
	if err != nil {
		return err
	}
	w.watches = w.server.watchCount
	if s.stub {
		w.watches = w.stub.watches
	}
	protobuf(w.config)
	w.config.DisableCompression = w.job.DisableCompression
	w.streams.countDials(w.config)
	if w.Away > 0 {
		w.config.Dial = network.Far(w.config.Dial, w.Away)
	}
	w.loaded = func() { _ = encoder.Encode(true) }
	if !s.writer {
		if err := w.awaitWatches(ctx, 0); err != nil { // of an earlier worker
			return err
		}
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
	w.seconds, w.cpu = time.Since(began).Seconds(), cpuOfProcess()
	streams := 1
	if w.kind.StreamPerObject {
		streams = len(w.names)
	}
	return w.awaitWatches(ctx, streams)
}

// awaitWatches waits until the server has a number of watches.
func (w *worker) awaitWatches(ctx context.Context, want int) error {
	const timeout = 5 * time.Minute
	interval := 250 * time.Millisecond
	if w.stub != nil {
		interval = 5 * time.Millisecond // it counts at no cost
	}
	var last int
	err := wait.PollUntilContextTimeout(ctx, interval, timeout, true, func(ctx context.Context) (done bool, err error) {
		last, err = w.watches(ctx)
		return last == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d watches on the server, which has %d: %w", want, last, err)
	}
	return nil
}

// getFirst gets a Secret, repeatedly if that fails, and checks that it is the right one.
func (w *worker) getFirst(ctx context.Context, i int) error {
	const (
		timeout  = time.Minute // of a contender that does not give up earlier
		interval = 10 * time.Millisecond
		most     = 300 // failures
	)
	for failures := 1; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		secret, err := w.contender.Get(attempt, w.Set.namespace(), w.names[i])
		cancel()
		if err == nil {
			return w.Set.check(secret, i)
		}
		w.failed.Add(1)
		if failures > most || ctx.Err() != nil {
			return fmt.Errorf("getting %s failed %d times: %w", w.names[i], failures, err)
		}
		<-time.After(interval)
	}
}

// update updates a Secret, and calls Get without a pause until it returns the update. It returns when it sent the
// update, when the response came, and when Get returned the update.
func (w *worker) update(ctx context.Context, i int) (sent, response, seen time.Time, err error) {
	const timeout = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	want := w.Set.secret(i, newEdition())
	returned := make(chan time.Time, 1)
	go func() {
		for ctx.Err() == nil {
			got, err := w.contender.Get(ctx, want.Namespace, want.Name)
			if err == nil && bytes.Equal(got.Data[dataKey], want.Data[dataKey]) {
				break
			}
			runtime.Gosched()
		}
		returned <- time.Now()
	}()
	sent = time.Now()
	_, err = w.server.CoreV1().Secrets(want.Namespace).Update(ctx, want, metav1.UpdateOptions{})
	response = time.Now()
	if err != nil {
		return sent, response, seen, err
	}
	seen = <-returned
	if ctx.Err() != nil {
		err = fmt.Errorf("waiting until Get returns an update of %s: %w", want.Name, ctx.Err())
	}
	return sent, response, seen, err
}

// awaitEdition waits until Get returns an edition of a Secret or a newer one, and returns it.
func (w *worker) awaitEdition(ctx context.Context, i int, least int64, interval time.Duration) (int64, error) {
	const timeout = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		secret, err := w.contender.Get(ctx, w.Set.namespace(), w.names[i])
		if err == nil {
			if edition := editionOf(secret); edition >= least {
				return edition, nil
			}
		}
		select {
		case <-time.After(interval):
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting until Get returns an update of %s: %w", w.names[i], errors.Join(ctx.Err(), err))
		}
	}
}
