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
		outcomes = append(outcomes, outcome{mutant: mutant{name: "in-" + file, breaks: "A.", file: file}, caught: "TestX"})
	}
	want := "\n3 mutants, 3 caught.\n" +
		"\n## b\n\n- in-b/x.go: `TestX`\n- in-b/z.go: `TestX`\n" +
		"\n## a\n\n- in-a/y.go: `TestX`\n"
	if got := pageOf(outcomes, 3); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant, in the end,\n%s", got, want)
	}
}

// -new tests the mutants whose names the page lacks, and keeps the rows of the others.
func TestPageLacksMutants(t *testing.T) {
	of := func(name string) mutant { return mutant{name: name, breaks: "A.", file: "a/x.go"} }
	page := pageOf([]outcome{
		{mutant: of("first"), caught: "TestA"}, {mutant: of("first-renamed"), caught: "TestB"}, {mutant: of("gone"), caught: "TestC"},
	}, 3)
	mutants := []mutant{of("new"), of("first"), of("renamed")}
	known, lacking := split(page, mutants)
	if len(known) != 1 || known[0].mutant.name != "first" || known[0].caught != "TestA" {
		t.Errorf("known: got %+v, want the first, caught by TestA", known)
	}
	if len(lacking) != 2 || lacking[0].name != "new" || lacking[1].name != "renamed" {
		t.Errorf("lacking: got %+v, want the new and the renamed one", lacking)
	}
	for _, m := range lacking {
		known = append(known, outcome{mutant: m, caught: "TestD"})
	}
	page = pageOf(inOrder(mutants, known), len(mutants))
	if _, lacking = split(page, mutants); len(lacking) > 0 || strings.Contains(page, "gone") || strings.Index(page, "new:") > strings.Index(page, "first:") {
		t.Errorf("got a page without %+v, want all in their order and no other:\n%s", lacking, page)
	}
}
