// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Result is the outcome of one case in one setting.
type Result struct {
	Case    string
	Promise string
	Server  string
	Engine  string // empty if the case is about the server
	Mode    string // see [Setting.Mode]
	Passed  bool
}

// Results collects the outcomes of cases. The zero value is empty and ready to use. Its methods are safe for concurrent
// use.
type Results struct {
	mu  sync.Mutex
	all []Result
}

func (r *Results) add(result Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, result)
}

// WriteFile writes the collected results as JSON, for [ReadFiles]. It creates missing folders.
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

// ReadFiles returns the results in the files that [Results.WriteFile] wrote.
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
