// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Tables formats results as two Markdown tables: the cases about the server, and those about the library. A row is a
// case; a column is an engine. A cell has a ✓ if the case passed on every server and in every mode that occurs in the
// table, and a – if it does not apply to the strategy of the engine. Otherwise it names the servers and modes in which
// the case failed or was not run. passed reports whether there is no such cell.
func Tables(results []Result) (text string, passed bool) {
	var out strings.Builder
	passed = true
	for _, heading := range []string{"Server behaviour", "Promises"} {
		aboutServer := heading == "Server behaviour"
		t := newTable(results, func(r Result) bool { return (r.Engine == "") == aboutServer })
		if len(t.names) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n## %s\n\n", heading)
		passed = t.write(&out) && passed
	}
	return out.String(), passed
}

// table holds the results of the cases of one table.
type table struct {
	names    []string // of the cases, in the order of Names
	columns  []string
	modes    []string // "SERVER, MODE"
	promises map[string]string
	outcomes map[[3]string]bool // by case, column and mode; true if every run passed
}

func newTable(results []Result, wanted func(Result) bool) *table {
	t := &table{promises: map[string]string{}, outcomes: map[[3]string]bool{}}
	for _, r := range results {
		if !wanted(r) {
			continue
		}
		column, mode := cmp.Or(r.Engine, "passed"), r.Server+", "+r.Mode
		t.names, t.columns, t.modes = append(t.names, r.Case), append(t.columns, column), append(t.modes, mode)
		t.promises[r.Case] = r.Promise
		key := [3]string{r.Case, column, mode}
		before, again := t.outcomes[key]
		t.outcomes[key] = r.Passed && (before || !again)
	}
	for _, list := range []*[]string{&t.names, &t.columns, &t.modes} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	slices.SortFunc(t.columns, func(a, b string) int { // the default comes first
		return strings.Compare(strings.TrimSuffix(a, "parked"), strings.TrimSuffix(b, "parked"))
	})
	order := Names()
	slices.SortStableFunc(t.names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	return t
}

// write writes the table, and reports whether every cell has a ✓.
func (t *table) write(out *strings.Builder) (passed bool) {
	passed = true
	fmt.Fprintf(out, "| case | promise | %s |\n", strings.Join(t.columns, " | "))
	fmt.Fprintf(out, "|---|---|%s\n", strings.Repeat(":-:|", len(t.columns)))
	for _, name := range t.names {
		fmt.Fprintf(out, "| `%s` | %s |", name, t.promises[name])
		for _, column := range t.columns {
			text, ok := t.cell(name, column)
			fmt.Fprintf(out, " %s |", text)
			passed = passed && ok
		}
		out.WriteByte('\n')
	}
	return passed
}

func (t *table) cell(name, column string) (text string, passed bool) {
	if !appliesTo(name, column) {
		return "–", true
	}
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
	for outcome, modes := range map[string][]string{"failed": failed, "not run": missing} {
		switch len(modes) {
		case 0:
		case len(t.modes):
			parts = append(parts, outcome)
		default:
			parts = append(parts, outcome+": "+strings.Join(modes, "; "))
		}
	}
	if len(parts) == 0 {
		return "✓", true
	}
	slices.Sort(parts)
	return strings.Join(parts, ". "), false
}
