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

// The suite on real control planes, one with WatchList and one without, at the same time: the tests wait more than they
// work. With CONFORMANCE_RESULTS set to a file, the results are written there, for the tables in docs.
func TestConformance(t *testing.T) {
	var results conformance.Results
	t.Cleanup(func() { // when all has run
		if path := os.Getenv("CONFORMANCE_RESULTS"); path != "" {
			if err := results.WriteFile(path); err != nil {
				t.Error(err)
			}
		}
	})
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchList=%v", watchList), func(t *testing.T) {
			t.Parallel()
			cluster := e2e.New(t, e2e.Options{DisableWatchList: !watchList})
			for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
				setting := conformance.Setting{Server: "real", WatchList: watchList, ContentType: contentType}
				t.Run(setting.Mode(), func(t *testing.T) {
					conformance.Run(t, rigOf(cluster), setting, &results)
				})
			}
		})
	}
}

func rigOf(cluster *e2e.Cluster) conformance.Rig {
	return conformance.Rig{
		Config:         cluster.ThroughProxy(cluster.Admin()),
		Direct:         cluster.Admin(),
		WaitForStreams: func(ctx context.Context, want int) error { return waitForStreams(ctx, cluster, want) },
		BreakStreams:   func(context.Context) error { cluster.Proxy.Cut(); return nil },
		// etcd forgets at once, the API server's watch cache when it begins anew. A crash is the fastest way there.
		Compact: func(ctx context.Context) error {
			if err := cluster.Compact(ctx); err != nil {
				return err
			}
			cluster.APIServer.Kill()
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
