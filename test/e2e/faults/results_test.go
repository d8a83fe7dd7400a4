// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// observations are the results of all tests of this run.
var observations results

// results collects rows.
type results struct {
	mu   sync.Mutex
	rows []row
}

type row struct{ fault, references, rest string }

// observe records a row: a fault, a promise, what was observed, and how long after the fault, or after its end. Call it
// after the checks of the promise: if the test has failed by then, the row says so. The row also has the number of
// objects that the store references.
func (r *rig) observe(fault, promise, observed string, took time.Duration) {
	r.Helper()
	references := r.others
	for range r.store.Statuses() {
		references++
	}
	if r.Failed() {
		observed = "FAILED: " + observed
	}
	r.Logf("%s, %d references: %s: %s, %.1f s", fault, references, promise, observed, took.Seconds())
	observations.add(fault, references, promise, observed, took)
}

func (r *results) add(fault string, references int, promise, observed string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := fmt.Sprintf("%s: %s, %.1f s", promise, observed, took.Seconds())
	r.rows = append(r.rows, row{fault, thousands(references), rest})
}

// thousands formats a number below a million with a comma as the thousands separator.
func thousands(n int) string {
	if n < 1_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1_000, n%1_000)
}

// list returns the rows as Markdown, with a heading for each fault, sorted, as parallel tests end in any order. The
// number of references stands in the first row that has it.
func (r *results) list() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.fault, b.fault) })
	var out strings.Builder
	var last row
	for _, row := range rows {
		if row.fault != last.fault {
			fmt.Fprintf(&out, "\n## %s\n\n", row.fault)
			last.references = ""
		}
		out.WriteString("- ")
		if row.references != last.references {
			fmt.Fprintf(&out, "%s references: ", row.references)
		}
		out.WriteString(row.rest + "\n")
		last = row
	}
	return out.String()
}

func TestResults(t *testing.T) {
	var r results
	r.add("b", 1, "served", "as promised", 1500*time.Millisecond)
	r.add("a", 999, "noticed", "as promised", 0)
	r.add("b", 1, "converges", "as promised", 2*time.Second)
	r.add("b", 10_001, "converges", "as promised", 20*time.Second)
	const want = `
## a

- 999 references: noticed: as promised, 0.0 s

## b

- 1 references: served: as promised, 1.5 s
- converges: as promised, 2.0 s
- 10,001 references: converges: as promised, 20.0 s
`
	if got := r.list(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
