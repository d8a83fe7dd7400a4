// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// pollInterval is the time between two calls of Poll's function.
const pollInterval = 20 * time.Millisecond

// Client returns a client for config. If it cannot, it fails the test.
func Client(tb testing.TB, config *rest.Config) kubernetes.Interface {
	tb.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// Run calls run in a goroutine until stop is called or the test ends. stop waits until run has returned, and reports
// its error to the test. Further calls of stop do nothing.
func Run(tb testing.TB, run func(context.Context) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("Run: got error %v, want none", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// Poll calls check until it returns nil or ctx ends: use it for a state that has no notification. It calls check at
// least once. If ctx ends first, the error wraps that of ctx and the last one of check.
func Poll(ctx context.Context, check func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w; last error: %w", ctx.Err(), err)
		}
	}
}
