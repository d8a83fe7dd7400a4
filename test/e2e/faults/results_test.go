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

// observations is what the tests of this run have seen.
var observations results

// results collects rows of a table.
type results struct {
	mu   sync.Mutex
	rows []string
}

// observe notes what came of a promise through a fault, and how long after the fault, or after its end, that was. It
// belongs behind the last check of it: a test that has failed says so in its row.
func observe(t *testing.T, fault, promise, observed string, took time.Duration) {
	t.Helper()
	if t.Failed() {
		observed = "FAILED: " + observed
	}
	t.Logf("%s: %s: %s, %.1f s", fault, promise, observed, took.Seconds())
	observations.add(fault, promise, observed, took)
}

func (r *results) add(fault, promise, observed string, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %s | %.1f |", fault, promise, observed, took.Seconds()))
}

// table returns the rows as Markdown, by fault: tests that run in parallel end in any order.
func (r *results) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := slices.Clone(r.rows)
	slices.SortStableFunc(rows, func(a, b string) int { return strings.Compare(faultOf(a), faultOf(b)) })
	head := []string{"| fault | promise | observed | seconds |", "|---|---|---|--:|"}
	return strings.Join(append(head, rows...), "\n") + "\n"
}

func faultOf(row string) string { return strings.Split(row, "|")[1] }

func TestResults(t *testing.T) {
	var r results
	r.add("b", "served", "as promised", 1500*time.Millisecond)
	r.add("a", "noticed", "as promised", 0)
	r.add("b", "converges", "as promised", 20*time.Second)
	const want = `| fault | promise | observed | seconds |
|---|---|---|--:|
| a | noticed | as promised | 0.0 |
| b | served | as promised | 1.5 |
| b | converges | as promised | 20.0 |
`
	if got := r.table(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
