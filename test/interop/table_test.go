// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bytes"
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
	runs  map[[2]string]map[string]string // what was seen: by server and what was done, and by client
}

// specResult is what one client did in the cases of h2spec.
type specResult struct {
	client   client
	cases    map[string]*spec.ClientTestCase
	outcomes map[string]error
}

func (r *report) addSpec(c client, cases map[string]*spec.ClientTestCase, outcomes map[string]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs = append(r.specs, specResult{client: c, cases: cases, outcomes: outcomes})
}

// add adds what was seen when something was done with a server.
func (r *report) add(server, what string, c client, seen string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row := [2]string{server, what}
	if r.runs == nil {
		r.runs = map[[2]string]map[string]string{}
	}
	if r.runs[row] == nil {
		r.runs[row] = map[string]string{}
	}
	r.runs[row][c.name] = seen
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
	fmt.Fprintf(out, "\n## Servers\n\n| server | what was done | %s | %s |\n|---|---|---|---|\n", refwatch.name, pooled.name)
	compare := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	for _, row := range slices.SortedFunc(maps.Keys(r.runs), compare) {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", row[0], row[1], r.runs[row][refwatch.name], r.runs[row][pooled.name])
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
