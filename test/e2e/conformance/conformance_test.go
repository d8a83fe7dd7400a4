// SPDX-License-Identifier: Apache-2.0

// Package conformance_test runs the conformance suite on a real control plane.
package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/test/conformance"
	"github.com/refwatch/refwatch/test/e2e"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The suite on a real control plane. With CONFORMANCE_RESULTS set to a file, the
// results are written there, for the table in docs.
func TestConformance(t *testing.T) {
	var results conformance.Results
	for _, watchList := range []bool{true, false} {
		cluster := e2e.New(t, e2e.Options{DisableWatchList: !watchList})
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			column := conformance.Column{Server: "real", WatchList: watchList, ContentType: contentType}
			t.Run(column.String(), func(t *testing.T) {
				conformance.Run(t, rigOf(cluster, watchList, contentType), column, &results)
			})
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}
	if path := os.Getenv("CONFORMANCE_RESULTS"); path != "" {
		if err := results.WriteFile(path); err != nil {
			t.Error(err)
		}
	}
}

func rigOf(cluster *e2e.Cluster, watchList bool, contentType string) conformance.Rig {
	return conformance.Rig{
		Config:         cluster.ThroughProxy(cluster.Admin()),
		Direct:         cluster.Admin(),
		ContentType:    contentType,
		WatchList:      watchList,
		WaitForStreams: func(ctx context.Context, want int) error { return waitForStreams(ctx, cluster, want) },
		Cut:            func(context.Context) error { cluster.Proxy.Cut(); return nil },
		// etcd forgets at once, the API server's watch cache when it begins anew.
		Forget: func(ctx context.Context) error {
			if err := cluster.Compact(ctx); err != nil {
				return err
			}
			return cluster.APIServer.Restart(ctx)
		},
	}
}

// waitForStreams asks the server for its own count until it is want: a count
// that the server offers no other way to wait for.
func waitForStreams(ctx context.Context, cluster *e2e.Cluster, want int) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		got, err := cluster.Metric(ctx, "apiserver_longrunning_requests", map[string]string{
			"resource": "secrets", "scope": "resource", "verb": "WATCH",
		})
		if err == nil && int(got) == want {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%v streams are open: %w", got, ctx.Err()), err)
		}
	}
}
