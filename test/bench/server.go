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
	memory  float64 // bytes of heap and stacks
	cpu     float64 // seconds
	watches int     // of Secrets, without the server's own, which are of the whole cluster
	events  float64 // on watches of Secrets
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
		case name == "go_memstats_heap_alloc_bytes", name == "go_memstats_stack_inuse_bytes":
			m.memory += value
		case name == "process_cpu_seconds_total":
			m.cpu = value
		case strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `resource="secrets"`) &&
			strings.Contains(name, `verb="WATCH"`) && !strings.Contains(name, `scope="cluster"`):
			m.watches += int(value)
		case strings.HasPrefix(name, "apiserver_watch_events_total{") && (strings.Contains(name, `resource="secrets"`) || strings.Contains(name, `kind="Secret"`)):
			m.events += value
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
	return m.memory, err
}

// watchCount returns the number of watches on the server.
func (s server) watchCount(ctx context.Context) (int, error) {
	m, err := s.metrics(ctx)
	return m.watches, err
}
