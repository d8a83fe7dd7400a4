// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const introduction = `# Mutants

A mutant is a bug that is put into the code to see whether the tests notice it. ` + "`make mutants`" + ` tests one mutant at a
time, fails if the tests pass, and writes this page: for each mutant the first test that failed.
[test/mutants](../../test/mutants/list) has the mutants, with the promise that each breaks.
`

// pageOf returns the page about those of all mutants that were caught, with a section for each folder, in the order of
// their first mutants.
func pageOf(outcomes []outcome, all int) string {
	var page strings.Builder
	page.WriteString(introduction)
	fmt.Fprintf(&page, "\n%d mutants, %d caught.", all, len(outcomes))
	if untested := all - len(outcomes); untested > 0 {
		fmt.Fprintf(&page, " %d were not tested, or their tests did not fail: `make mutants-new` tests them.", untested)
	}
	page.WriteString("\n")
	var folders []string
	rows := map[string]string{}
	for _, o := range outcomes {
		folder := path.Dir(o.mutant.file)
		if rows[folder] == "" {
			folders = append(folders, folder)
		}
		rows[folder] += fmt.Sprintf("%s%s%s", rowStart(o.mutant), o.caught, rowEnd)
	}
	for _, folder := range folders {
		fmt.Fprintf(&page, "\n## %s\n\n%s", folder, rows[folder])
	}
	return page.String()
}

const rowEnd = "`\n"

// rowStart returns the row of a mutant up to the test that caught it.
func rowStart(m mutant) string { return "- " + m.name + ": `" }

// onPage returns the outcome that a page has of a mutant, by its name.
func onPage(page string, m mutant) (outcome, bool) {
	_, rest, found := strings.Cut(page, "\n"+rowStart(m))
	caught, _, ends := strings.Cut(rest, rowEnd)
	return outcome{mutant: m, caught: caught}, found && ends
}

// split returns the outcomes that a page has of mutants, and the mutants that it lacks.
func split(page string, mutants []mutant) (known []outcome, lacking []mutant) {
	for _, m := range mutants {
		if o, ok := onPage(page, m); ok {
			known = append(known, o)
		} else {
			lacking = append(lacking, m)
		}
	}
	return known, lacking
}

// inOrder returns the outcomes in the order of the mutants.
func inOrder(mutants []mutant, outcomes []outcome) []outcome {
	order := map[string]int{}
	for i, m := range mutants {
		order[m.name] = i
	}
	return slices.SortedFunc(slices.Values(outcomes), func(a, b outcome) int { return order[a.mutant.name] - order[b.mutant.name] })
}
