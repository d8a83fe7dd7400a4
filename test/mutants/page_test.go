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

// -new tests what has no row, or another row than it would have today, and keeps the other rows.
func TestPageLacksMutants(t *testing.T) {
	of := func(name, breaks string) mutant { return mutant{name: name, breaks: breaks, file: "a/x.go"} }
	page := pageOf([]outcome{
		{mutant: of("first", "A | B."), caught: "TestA"}, {mutant: of("changed", "C."), caught: "TestB"}, {mutant: of("gone", "D."), caught: "TestC"},
	})
	mutants := []mutant{of("new", "E."), of("first", "A | B."), of("changed", "C, more precisely.")}
	known, lacking := split(page, mutants)
	if len(known) != 1 || known[0].mutant.name != "first" || known[0].caught != "TestA" {
		t.Errorf("known: got %+v, want the first, caught by TestA", known)
	}
	if len(lacking) != 2 || lacking[0].name != "new" || lacking[1].name != "changed" {
		t.Errorf("lacking: got %+v, want the new and the changed one", lacking)
	}
	for _, m := range lacking {
		known = append(known, outcome{mutant: m, caught: "TestD"})
	}
	page = pageOf(inOrder(mutants, known))
	if _, lacking = split(page, mutants); len(lacking) > 0 || strings.Contains(page, "gone") || strings.Index(page, "new |") > strings.Index(page, "first |") {
		t.Errorf("got a page without %+v, want all in their order and no other:\n%s", lacking, page)
	}
}
