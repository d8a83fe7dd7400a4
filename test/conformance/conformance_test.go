// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/conformance"
)

// The suite on the in-process server. With CONFORMANCE_RESULTS set to a file,
// the results are written there, for the table in docs.
func TestConformance(t *testing.T) {
	var results conformance.Results
	for _, watchList := range []bool{true, false} {
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			column := conformance.Column{Server: "in-process", WatchList: watchList, ContentType: contentType}
			t.Run(column.String(), func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{DisableWatchList: !watchList})
				conformance.Run(t, rigOf(server, watchList, contentType), column, &results)
			})
		}
	}
	if path := os.Getenv("CONFORMANCE_RESULTS"); path != "" {
		if err := results.WriteFile(path); err != nil {
			t.Error(err)
		}
	}
}

func rigOf(server *apiserver.Server, watchList bool, contentType string) conformance.Rig {
	return conformance.Rig{
		Config:      server.Config(),
		ContentType: contentType,
		WatchList:   watchList,
		WaitForStreams: func(ctx context.Context, want int) error {
			if err := server.WaitFor(ctx, func() bool { return server.TotalStreams() == want }); err != nil {
				return fmt.Errorf("%d streams are open: %w", server.TotalStreams(), err)
			}
			return nil
		},
		Cut:    func(context.Context) error { server.CloseStreams(nil); return nil },
		Forget: func(context.Context) error { server.Compact(); return nil },
	}
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "results", "one.json")
	results := []conformance.Result{
		{Case: "store/updates", Promise: "p", Column: "real", Passed: true},
		{Case: "server/conflict", Promise: "q", Column: "real", Passed: false},
		{Case: "server/conflict", Promise: "q", Column: "in-process", Passed: true},
	}
	var empty conformance.Results
	if err := empty.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err := conformance.ReadFiles(path); err != nil || len(got) != 0 {
		t.Errorf("read back: got %v, %v, want nothing", got, err)
	}
	if _, err := conformance.ReadFiles(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file: got no error")
	}
	want := `| case | what is promised | in-process | real |
|---|---|:-:|:-:|
| ` + "`server/conflict`" + ` | q | ✓ | failed |
| ` + "`store/updates`" + ` | p | not run | ✓ |
`
	if got := conformance.Table(results); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("table: got\n%s\nwant\n%s", got, want)
	}
}
