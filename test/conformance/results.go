// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Result is how one case went in one column.
type Result struct {
	Case    string
	Promise string
	Column  string
	Passed  bool
}

// Results collects how cases went. The zero value is empty and ready; its
// methods are safe for concurrent use.
type Results struct {
	mu  sync.Mutex
	all []Result
}

func (r *Results) add(name, promise string, column Column, passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, Result{name, promise, column.String(), passed})
}

// WriteFile writes what was collected as JSON, for [ReadFiles]. Folders that are
// missing are made.
func (r *Results) WriteFile(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	data, err := json.MarshalIndent(r.all, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// ReadFiles reads what runs have written.
func ReadFiles(paths ...string) ([]Result, error) {
	var all []Result
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var results []Result
		if err := json.Unmarshal(data, &results); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, results...)
	}
	return all, nil
}

// Table writes results as a Markdown table: a row for each case, a column for
// each rig. A case that failed or was not run says so.
func Table(results []Result) string {
	var names, columns []string
	promises, cells := map[string]string{}, map[[2]string]string{}
	for _, result := range results {
		if !slices.Contains(columns, result.Column) {
			columns = append(columns, result.Column)
		}
		if !slices.Contains(names, result.Case) {
			names = append(names, result.Case)
		}
		promises[result.Case] = result.Promise
		cell := [2]string{result.Case, result.Column}
		if cells[cell] != "failed" {
			cells[cell] = map[bool]string{true: "✓", false: "failed"}[result.Passed]
		}
	}
	slices.Sort(columns)
	order := Names()
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })

	var out strings.Builder
	fmt.Fprintf(&out, "| case | what is promised | %s |\n", strings.Join(columns, " | "))
	fmt.Fprintf(&out, "|---|---|%s\n", strings.Repeat(":-:|", len(columns)))
	for _, name := range names {
		fmt.Fprintf(&out, "| `%s` | %s |", name, promises[name])
		for _, column := range columns {
			cell := cells[[2]string{name, column}]
			if cell == "" {
				cell = "not run"
			}
			fmt.Fprintf(&out, " %s |", cell)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
