// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// server is the API server, as an administrator sees it.
type server struct{ kubernetes.Interface }

// answers reports whether the server answers a request for a Secret.
func (s server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.CoreV1().RESTClient().Get().Namespace(metav1.NamespaceDefault).Resource("secrets").
		Name("none").MaxRetries(0).Do(ctx).Error()
	return err == nil || apierrors.IsNotFound(err)
}

// metrics are some of the server's metrics.
type metrics struct {
	heap, stacks float64 // bytes
	cpu          float64 // seconds
	streams      int     // watches of Secrets, without the server's own, which are of the whole cluster
}

func (s server) metrics(ctx context.Context) (m metrics, err error) {
	text, err := s.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return m, fmt.Errorf("reading /metrics: %w", err)
	}
	for line := range bytes.Lines(text) {
		name, number, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		value, _ := strconv.ParseFloat(number, 64) // comments have none
		switch {
		case name == "go_memstats_heap_alloc_bytes":
			m.heap = value
		case name == "go_memstats_stack_inuse_bytes":
			m.stacks = value
		case name == "process_cpu_seconds_total":
			m.cpu = value
		case strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `resource="secrets"`) &&
			strings.Contains(name, `verb="WATCH"`) && !strings.Contains(name, `scope="cluster"`):
			m.streams += int(value)
		}
	}
	return m, nil
}

// memory returns the bytes of the server's heap and stacks after a garbage collection.
func (s server) memory(ctx context.Context) (float64, error) {
	if _, err := s.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return 0, fmt.Errorf("collecting the server's garbage: %w", err)
	}
	m, err := s.metrics(ctx)
	return m.heap + m.stacks, err
}

// awaitStreams waits until the server has a number of watches.
func (s server) awaitStreams(ctx context.Context, want int) error {
	const interval, timeout = 250 * time.Millisecond, 2 * time.Minute
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var last metrics
	err := poll(ctx, interval, func() (done bool, err error) {
		last, err = s.metrics(ctx)
		return last.streams == want, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d watches on the server, which has %d: %w", want, last.streams, err)
	}
	return nil
}

// poll calls done until it returns true or an error, or ctx ends.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := pause(ctx, interval); err != nil {
			return err
		}
	}
}

// pause waits for a time, or returns the error of ctx.
func pause(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
