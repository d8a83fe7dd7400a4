// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/refwatch/refwatch/test/conformance"
)

func TestTables(t *testing.T) {
	server := func(mode string, passed bool) conformance.Result {
		return conformance.Result{Case: "server/conflict", Promise: "q", Server: "real", Mode: mode, Passed: passed}
	}
	library := func(name, engine, mode string, passed bool) conformance.Result {
		return conformance.Result{Case: name, Promise: "p", Server: "real", Engine: engine, Mode: mode, Passed: passed}
	}
	const (
		serverHeads  = "\n## Server behaviour\n\n| case | promise | passed |\n|---|---|:-:|\n"
		libraryHeads = "\n## Promises\n\n| case | promise | parked | blocking |\n|---|---|:-:|:-:|\n"
	)
	tests := map[string]struct {
		results []conformance.Result
		want    string
		passed  bool
	}{
		"no results": {passed: true},
		"passed in both modes": {
			results: []conformance.Result{server("A", true), server("B", true)},
			want:    serverHeads + "| `server/conflict` | q | ✓ |\n",
			passed:  true,
		},
		"failed in one mode": {
			results: []conformance.Result{server("A", false), server("B", true)},
			want:    serverHeads + "| `server/conflict` | q | failed: real, A |\n",
		},
		"failed in all modes": {
			results: []conformance.Result{server("A", false), server("B", false)},
			want:    serverHeads + "| `server/conflict` | q | failed |\n",
		},
		"failed, then passed": {
			results: []conformance.Result{server("A", false), server("A", true)},
			want:    serverHeads + "| `server/conflict` | q | failed |\n",
		},
		"two columns, in the order of the cases": {
			results: []conformance.Result{
				library("store/updates", "parked", "A", true),
				library("reflector/broken-stream", "parked", "A", true),
				library("reflector/broken-stream", "parked", "B", true),
				library("reflector/broken-stream", "blocking", "A", false),
			},
			want: libraryHeads +
				"| `reflector/broken-stream` | p | ✓ | failed: real, A. not run: real, B |\n" +
				"| `store/updates` | p | not run: real, B | not run |\n",
		},
		"a case that does not apply to a strategy": {
			results: []conformance.Result{
				library("store/updates", "parked", "A", true), library("store/changes", "parked", "A", true),
				library("store/updates", "TTL", "A", true),
			},
			want: "\n## Promises\n\n| case | promise | parked | TTL |\n|---|---|:-:|:-:|\n" +
				"| `store/updates` | p | ✓ | ✓ |\n| `store/changes` | p | ✓ | – |\n",
			passed: true,
		},
		"both tables": {
			results: []conformance.Result{library("store/updates", "parked", "A", true), server("A", true)},
			want: serverHeads + "| `server/conflict` | q | ✓ |\n" +
				"\n## Promises\n\n| case | promise | parked |\n|---|---|:-:|\n| `store/updates` | p | ✓ |\n",
			passed: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, passed := conformance.Tables(test.results)
			if diff := cmp.Diff(test.want, got); diff != "" || passed != test.passed {
				t.Errorf("got passed %v, want %v; text, -want +got:\n%s", passed, test.passed, diff)
			}
		})
	}
}

func TestMode(t *testing.T) {
	for want, setting := range map[string]conformance.Setting{
		"list+watch, JSON":    {},
		"WatchList, protobuf": {WatchList: true, ContentType: "application/vnd.kubernetes.protobuf"},
	} {
		if got := setting.Mode(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
