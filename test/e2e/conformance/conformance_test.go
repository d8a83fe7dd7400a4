// SPDX-License-Identifier: Apache-2.0

// Package conformance_test runs the conformance suite on a real control plane.
package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/test/conformance"
	"github.com/refwatch/refwatch/test/e2e"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConformance runs the suite on two control planes, with and without WatchList, and with -short on
// each with one of two content types. They run in parallel, as the tests
// mostly wait. If CONFORMANCE_RESULTS names a file, it writes the results there, for the tables in docs.
func TestConformance(t *testing.T) {
	var results conformance.Results
	t.Cleanup(func() { // after all subtests
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
				if testing.Short() && watchList == (contentType == runtime.ContentTypeProtobuf) {
					continue // two of the four show most; the in-process server has all
				}
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
		// A compaction removes old versions from etcd, and a restart from the API server's watch cache. A kill is the
		// fastest way to restart.
		Compact: func(ctx context.Context) error {
			if err := cluster.Compact(ctx); err != nil {
				return err
			}
			cluster.APIServer.Kill()
			return cluster.APIServer.Restart(ctx)
		},
	}
}

// waitForStreams polls the server's own count of streams until it is want.
func waitForStreams(ctx context.Context, cluster *e2e.Cluster, want int) error {
	return e2e.Poll(ctx, func(ctx context.Context) error {
		got, err := cluster.OpenWatches(ctx, "secrets")
		if err == nil && got != want {
			err = fmt.Errorf("%d streams are open, want %d", got, want)
		}
		return err
	})
}
