// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/conformance"
	"github.com/refwatch/refwatch/test/testmain"
)

// TestConformance runs the suite on the in-process server. If CONFORMANCE_RESULTS names a file, it writes the results
// there, for make e2e.
func TestConformance(t *testing.T) {
	var results conformance.Results
	t.Cleanup(func() { // after all cases
		if path := os.Getenv("CONFORMANCE_RESULTS"); path != "" {
			if err := results.WriteFile(path); err != nil {
				t.Error(err)
			}
		}
	})
	for _, watchList := range []bool{true, false} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			if (testing.Short() || testmain.Race) && watchList == (contentType == runtime.ContentTypeJSON) {
				continue // two of the four show most
			}
			setting := conformance.Setting{Server: "in-process", WatchList: watchList, ContentType: contentType}
			t.Run(setting.Mode(), func(t *testing.T) {
				t.Parallel()
				server := apiserver.New(t, apiserver.Options{DisableWatchList: !watchList})
				conformance.Run(t, rigOf(server), setting, &results)
			})
		}
	}
}

func rigOf(server *apiserver.Server) conformance.Rig {
	return conformance.Rig{
		Config: server.Config(),
		WaitForStreams: func(ctx context.Context, want int) error {
			if err := server.WaitFor(ctx, func() bool { return server.TotalStreams() == want }); err != nil {
				return fmt.Errorf("%d streams are open: %w", server.TotalStreams(), err)
			}
			return nil
		},
		BreakStreams: func(context.Context) error { server.CloseStreams(nil); return nil },
		Compact:      func(context.Context) error { server.Compact(); return nil },
	}
}
