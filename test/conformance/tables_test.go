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
		heads        = "\n## What is needed of a server\n\n| case | promise | real |\n|---|---|:-:|\n"
		libraryHeads = "\n## What is promised\n\n| case | promise | real, client-go | real, stream |\n|---|---|:-:|:-:|\n"
	)
	tests := map[string]struct {
		results []conformance.Result
		want    string
		passed  bool
	}{
		"nothing": {passed: true},
		"passed in both modes": {
			results: []conformance.Result{server("A", true), server("B", true)},
			want:    heads + "| `server/conflict` | q | ✓ |\n",
			passed:  true,
		},
		"failed in one of two": {
			results: []conformance.Result{server("A", false), server("B", true)},
			want:    heads + "| `server/conflict` | q | failed: A |\n",
		},
		"failed in all": {
			results: []conformance.Result{server("A", false), server("B", false)},
			want:    heads + "| `server/conflict` | q | failed |\n",
		},
		"failed before it passed": {
			results: []conformance.Result{server("A", false), server("A", true)},
			want:    heads + "| `server/conflict` | q | failed |\n",
		},
		"an engine apart, in the order of the cases": {
			results: []conformance.Result{
				library("store/updates", "stream", "A", true),
				library("reflector/cut", "stream", "A", true),
				library("reflector/cut", "stream", "B", true),
				library("reflector/cut", "client-go", "A", false),
			},
			want: libraryHeads +
				"| `reflector/cut` | p | failed: A. not run: B | ✓ |\n" +
				"| `store/updates` | p | not run | not run: B |\n",
		},
		"one of each": {
			results: []conformance.Result{library("store/updates", "stream", "A", true), server("A", true)},
			want: heads + "| `server/conflict` | q | ✓ |\n" +
				"\n## What is promised\n\n| case | promise | real, stream |\n|---|---|:-:|\n| `store/updates` | p | ✓ |\n",
			passed: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, passed := conformance.Tables(test.results)
			if diff := cmp.Diff(test.want, got); diff != "" || passed != test.passed {
				t.Errorf("got passed %v, want %v; text, want to got:\n%s", passed, test.passed, diff)
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
