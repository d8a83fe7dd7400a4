// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
)

// Tables writes results as two Markdown tables, of the server and of the
// library: a row for each case, a column for each server, and engine. A case has
// passed where it did in every mode that there are results of; otherwise its cell
// says in which ones it failed or was not run. passed tells that all are well.
func Tables(results []Result) (text string, passed bool) {
	var out strings.Builder
	passed = true
	for _, heading := range []string{"What is needed of a server", "What is promised"} {
		ofServer := heading == "What is needed of a server"
		t := newTable(results, func(r Result) bool { return (r.Engine == "") == ofServer })
		if len(t.names) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n\n", heading)
		passed = t.write(&out) && passed
	}
	return out.String(), passed
}

// table is the results of some cases.
type table struct {
	names    []string // of cases, in order
	columns  []string
	modes    []string
	promises map[string]string
	outcomes map[[3]string]bool // by case, column and mode: passed, whenever it was run
}

func newTable(results []Result, wanted func(Result) bool) *table {
	t := &table{promises: map[string]string{}, outcomes: map[[3]string]bool{}}
	for _, r := range results {
		if !wanted(r) {
			continue
		}
		column := r.Server
		if r.Engine != "" {
			column += ", " + r.Engine
		}
		t.names, t.columns, t.modes = append(t.names, r.Case), append(t.columns, column), append(t.modes, r.Mode)
		t.promises[r.Case] = r.Promise
		key := [3]string{r.Case, column, r.Mode}
		before, again := t.outcomes[key]
		t.outcomes[key] = r.Passed && (before || !again)
	}
	for _, list := range []*[]string{&t.names, &t.columns, &t.modes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	order := Names()
	slices.SortStableFunc(t.names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return t
}

// write tells whether all cells are well.
func (t *table) write(out *strings.Builder) (passed bool) {
	passed = true
	fmt.Fprintf(out, "| case | promise | %s |\n", strings.Join(t.columns, " | "))
	fmt.Fprintf(out, "|---|---|%s\n", strings.Repeat(":-:|", len(t.columns)))
	for _, name := range t.names {
		fmt.Fprintf(out, "| `%s` | %s |", name, t.promises[name])
		for _, column := range t.columns {
			cell, well := t.cell(name, column)
			fmt.Fprintf(out, " %s |", cell)
			passed = passed && well
		}
		out.WriteByte('\n')
	}
	return passed
}

func (t *table) cell(name, column string) (text string, passed bool) {
	var failed, missing []string
	for _, mode := range t.modes {
		switch passed, run := t.outcomes[[3]string{name, column, mode}]; {
		case !run:
			missing = append(missing, mode)
		case !passed:
			failed = append(failed, mode)
		}
	}
	var parts []string
	for what, modes := range map[string][]string{"failed": failed, "not run": missing} {
		switch len(modes) {
		case 0:
		case len(t.modes):
			parts = append(parts, what)
		default:
			parts = append(parts, what+": "+strings.Join(modes, "; "))
		}
	}
	if len(parts) == 0 {
		return "✓", true
	}
	slices.Sort(parts)
	return strings.Join(parts, ". "), false
}
