// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// The page has one section for each folder, also if the lists mix the folders.
func TestPageHasASectionForEachFolder(t *testing.T) {
	var outcomes []outcome
	for _, file := range []string{"b/x.go", "a/y.go", "b/z.go"} {
		outcomes = append(outcomes, outcome{mutant: mutant{name: "in-" + file, breaks: "A | B.", file: file}, caught: "TestX"})
	}
	const head = "\n\n| mutant | file | the promise that it breaks | caught by |\n|---|---|---|---|\n"
	want := "\n3 mutants, 3 caught.\n" +
		"\n## b" + head + "| in b/x.go | `x.go` | A \\| B. | `TestX` |\n| in b/z.go | `z.go` | A \\| B. | `TestX` |\n" +
		"\n## a" + head + "| in a/y.go | `y.go` | A \\| B. | `TestX` |\n"
	if got := pageOf(outcomes); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant, in the end,\n%s", got, want)
	}
}
