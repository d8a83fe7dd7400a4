// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path"
	"strings"
)

const introduction = `# Mutants

A mutant is a bug that is put into the code to see whether the tests notice it. ` + "`make mutants`" + ` runs the tests with one
mutant at a time, fails if they pass, and writes this page. [test/mutants](../test/mutants) has the mutants and says how
to add one. The last column is the first test that failed; often others would have failed as well.
`

// pageOf returns the page about mutants that were caught, with a section for each folder, in the order of their first
// mutants.
func pageOf(outcomes []outcome) string {
	var page strings.Builder
	page.WriteString(introduction)
	fmt.Fprintf(&page, "\n%d mutants, %[1]d caught.\n", len(outcomes))
	var folders []string
	rows := map[string]string{}
	for _, o := range outcomes {
		folder := path.Dir(o.mutant.file)
		if rows[folder] == "" {
			folders = append(folders, folder)
		}
		rows[folder] += fmt.Sprintf("| %s | `%s` | %s | `%s` |\n",
			strings.ReplaceAll(o.mutant.name, "-", " "), path.Base(o.mutant.file), strings.ReplaceAll(o.mutant.breaks, "|", `\|`), o.caught)
	}
	for _, folder := range folders {
		fmt.Fprintf(&page, "\n## %s\n\n| mutant | file | the promise that it breaks | caught by |\n|---|---|---|---|\n%s", folder, rows[folder])
	}
	return page.String()
}
