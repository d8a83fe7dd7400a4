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

// results are those of all tests, for the flag -table.
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

` + "`make interop`" + ` tests the HTTP/2 client of ` + "`internal/h2`" + ` with servers of other projects; a run with the flag
` + "`-table`" + ` writes this page. Envoy is missing, because Debian has no package of it. The columns are clients:

- refwatch: this client, where a Receiver takes the data, as by default;
- refwatch, Read: the same, where a goroutine reads the bodies, as where a wrapper of the config hides them;
- net/http: client-go's own. Its connections are not counted (–): it opens some for each burst of streams.

[A front end before the server](../troubleshooting.md#a-front-end-before-the-server) has the settings of nginx and
HAProxy.
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
	slices.SortFunc(r.specs, func(a, b specResult) int { // they ran in parallel
		order := func(result specResult) int {
			return slices.IndexFunc(specClients, func(c client) bool { return c.name == result.client.name })
		}
		return order(a) - order(b)
	})
	out.WriteString("\n## h2spec 2.2.1, the tests of clients\n\nThe cases that a client does not pass:\n\n| section | case |")
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
		if !slices.ContainsFunc(r.specs, func(result specResult) bool { return result.outcomes[id] != nil }) {
			continue // all have passed
		}
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
	writeReasons(out, "why net/http's client was not run, and counts as failed", specDeadlocks)
}

// writeReasons writes a table of reasons, each with the cases that have it.
func writeReasons(out *bytes.Buffer, title string, reasons map[string]string) {
	if len(reasons) == 0 {
		return
	}
	fmt.Fprintf(out, "\n| cases | %s |\n|---|---|\n", title)
	cases := map[string][]string{}
	for _, id := range slices.SortedFunc(maps.Keys(reasons), compareIDs) {
		cases[reasons[id]] = append(cases[reasons[id]], id)
	}
	for _, reason := range slices.Sorted(maps.Keys(cases)) {
		fmt.Fprintf(out, "| %s | %s |\n", strings.Join(cases[reason], ", "), reason)
	}
}

// writeRuns writes what was seen with each server. A server stands in its first row.
func (r *report) writeRuns(out *bytes.Buffer) {
	fmt.Fprintf(out, "\n## Servers\n\n| server | what was done | %s | %s |\n|---|---|---|---|\n", refwatch.name, netHTTP.name)
	compare := func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }
	last := ""
	for _, row := range slices.SortedFunc(maps.Keys(r.runs), compare) {
		server, ours, theirs := row[0], r.runs[row][refwatch.name], r.runs[row][netHTTP.name]
		switch theirs {
		case ours:
			theirs = "the same"
		case "":
			theirs = "–"
		}
		if server == last {
			server = ""
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", server, row[1], ours, theirs)
		last = row[0]
	}
}

// compareIDs compares IDs of cases by their numbers: 6.9/2 comes before 6.9.1/1, and that before 6.10/1.
func compareIDs(a, b string) int {
	numbers := func(id string) []int {
		section, number, _ := strings.Cut(id, "/")
		var all []int
		for _, field := range strings.Split(section, ".") {
			n, _ := strconv.Atoi(field) // h2spec's sections are numbers
			all = append(all, n)
		}
		n, _ := strconv.Atoi(number)
		return append(all, -1, n) // a section comes before the sections in it
	}
	return slices.Compare(numbers(a), numbers(b))
}
