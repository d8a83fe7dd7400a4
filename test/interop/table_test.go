// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/summerwind/h2spec/spec"
)

// results are those of all tests, for docs/interop.md.
var results report

type report struct {
	mu    sync.Mutex
	specs []specResult
	runs  []runResult
}

// specResult is what one client did in the cases of h2spec.
type specResult struct {
	client   client
	cases    map[string]*spec.ClientTestCase
	outcomes map[string]error
}

// runResult is a row of a table of servers: what was done, and what was seen.
type runResult struct{ server, what, seen string }

func (r *report) addSpec(c client, cases map[string]*spec.ClientTestCase, outcomes map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs = append(r.specs, specResult{client: c, cases: cases, outcomes: outcomes})
}

func (r *report) addRun(server, what, seen string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, runResult{server: server, what: what, seen: seen})
}

const page = `# Interoperability

Package ` + "`reflector/transport`" + ` has an HTTP/2 client of its own. ` + "`make interop`" + ` runs it against servers of other projects. A run
with the flag ` + "`-table`" + ` writes this page: see ` + "`test/interop`" + `.
`

// write writes the page. It needs the results of all tests.
func (r *report) write(file string) error {
	if len(r.specs) == 0 || len(r.runs) == 0 {
		return fmt.Errorf("%s: run all tests to write it", file)
	}
	var out bytes.Buffer
	out.WriteString(page)
	r.writeSpecs(&out)
	r.writeRuns(&out)
	return os.WriteFile(file, out.Bytes(), 0o644)
}

func (r *report) writeSpecs(out *bytes.Buffer) {
	out.WriteString("\n## h2spec 2.2.1, the tests of clients\n\n| section | case |")
	for _, result := range r.specs {
		fmt.Fprintf(out, " %s |", result.client.name)
	}
	out.WriteString("\n|---|---|" + strings.Repeat(":-:|", len(r.specs)) + "\n| | passed |")
	for _, result := range r.specs {
		passed := 0
		for _, err := range result.outcomes {
			if err == nil {
				passed++
			}
		}
		fmt.Fprintf(out, " %d of %d |", passed, len(result.outcomes))
	}
	out.WriteString("\n")
	cases := r.specs[0].cases
	for _, id := range slices.SortedFunc(maps.Keys(cases), compareIDs) {
		fmt.Fprintf(out, "| %s | %s |", id, cases[id].Desc)
		for _, result := range r.specs {
			mark := "✓"
			if result.outcomes[id] != nil {
				mark = "✗"
			}
			fmt.Fprintf(out, " %s |", mark)
		}
		out.WriteString("\n")
	}
	out.WriteString("\nWhere a client differs:\n\n")
	for _, reasons := range []map[string]string{specDifferences, specDeadlocks} {
		for _, id := range slices.SortedFunc(maps.Keys(reasons), compareIDs) {
			fmt.Fprintf(out, "- %s: %s.\n", id, reasons[id])
		}
	}
}

func (r *report) writeRuns(out *bytes.Buffer) {
	out.WriteString("\n## Servers\n\n| server | what was done | what was seen |\n|---|---|---|\n")
	slices.SortStableFunc(r.runs, func(a, b runResult) int {
		return cmp.Or(strings.Compare(a.server, b.server), strings.Compare(a.what, b.what))
	})
	for _, run := range r.runs {
		fmt.Fprintf(out, "| %s | %s | %s |\n", run.server, run.what, run.seen)
	}
}

// compareIDs compares IDs of cases by the numbers in them: 6.9.1/2 comes before 6.10/1.
func compareIDs(a, b string) int {
	numbers := func(id string) []int {
		var all []int
		for _, field := range strings.FieldsFunc(id, func(r rune) bool { return r == '.' || r == '/' }) {
			n, _ := strconv.Atoi(field) // h2spec's sections are numbers
			all = append(all, n)
		}
		return all
	}
	return slices.Compare(numbers(a), numbers(b))
}
