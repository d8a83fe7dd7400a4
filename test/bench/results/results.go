// SPDX-License-Identifier: Apache-2.0

// Package results keeps what was measured: as JSON, as lines, as plots and as a page.
package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// Results are those of one or more runs.
type Results struct {
	Environment Environment `json:"environment"`
	// Figures has a figure by its name.
	Figures map[string]*Figure `json:"figures"`
	// Recoveries has, by outage and contender, the streams of each round over time.
	Recoveries map[string]map[string][]Recovery `json:"recoveries,omitempty"`
}

// Environment is what the last run was made with. Each figure has its own, should it be of an earlier one.
type Environment struct {
	Date       string            `json:"date"` // RFC 3339
	CPUs       int               `json:"cpus"`
	Platform   string            `json:"platform"`
	Go         string            `json:"go"`
	Kubernetes string            `json:"kubernetes"` // the server's version
	Modules    map[string]string `json:"modules,omitempty"`
	Quick      bool              `json:"quick,omitempty"` // a look, not a result
	Sizes      []int             `json:"sizes"`           // of memory and sync
	Size       int               `json:"size"`            // of the rest
	Rounds     int               `json:"rounds"`
}

// Figure is one number for each contender: the median of its rounds.
type Figure struct {
	Scenario string `json:"scenario"`
	Date     string `json:"date"`
	// Rounds has one value per round, by contender.
	Rounds map[string][]float64 `json:"rounds"`
	// Samples has what each round's value, and that of other percentiles, was computed from.
	Samples map[string][][]float64 `json:"samples,omitempty"`
}

// Recovery is one round of an outage.
type Recovery struct {
	// Want is how many streams there were before.
	Want int `json:"want"`
	// Seconds are since the server was ready again, and negative before.
	Seconds []float64 `json:"seconds"`
	// Open has the number of open streams, at those times.
	Open []int64 `json:"open"`
}

// New returns results without any figure.
func New() *Results {
	return &Results{Figures: map[string]*Figure{}, Recoveries: map[string]map[string][]Recovery{}}
}

// Load reads results, or returns none if there is no such file.
func Load(path string) (*Results, error) {
	r := New()
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading earlier results: %w", err)
	}
	if err := json.Unmarshal(content, r); err != nil {
		return nil, fmt.Errorf("reading earlier results (remove %s to start over): %w", path, err)
	}
	return r, nil
}

// Save writes the results. An interrupted one leaves the file as it was.
func (r *Results) Save(path string) error {
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if err := os.WriteFile(path+".new", append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}

// Merge takes over the figures of newer results, in place of those of the same scenarios.
func (r *Results) Merge(newer *Results) {
	again := map[string]bool{}
	for _, figure := range newer.Figures {
		again[figure.Scenario] = true
	}
	maps.DeleteFunc(r.Figures, func(_ string, figure *Figure) bool { return again[figure.Scenario] })
	maps.Copy(r.Figures, newer.Figures)
	maps.Copy(r.Recoveries, newer.Recoveries)
	r.Environment = newer.Environment
}

// Add notes one round's value of a figure.
func (r *Results) Add(scenario, name, contender string, value float64) {
	figure := r.figure(scenario, name)
	figure.Rounds[contender] = append(figure.Rounds[contender], value)
}

// AddPercentiles notes one round's p50 and p99 of samples in milliseconds, if there are any, and keeps the samples
// with the former.
func (r *Results) AddPercentiles(scenario, name, contender string, samples []float64) {
	if len(samples) == 0 {
		return
	}
	r.Add(scenario, name+"-p50-ms", contender, Percentile(samples, 50))
	r.Add(scenario, name+"-p99-ms", contender, Percentile(samples, 99))
	figure := r.figure(scenario, name+"-p50-ms")
	if figure.Samples == nil {
		figure.Samples = map[string][][]float64{}
	}
	figure.Samples[contender] = append(figure.Samples[contender], samples)
}

func (r *Results) figure(scenario, name string) *Figure {
	figure, ok := r.Figures[name]
	if !ok {
		figure = &Figure{Scenario: scenario, Date: r.Environment.Date, Rounds: map[string][]float64{}}
		r.Figures[name] = figure
	}
	return figure
}

// AddRecovery notes one round of an outage.
func (r *Results) AddRecovery(scenario, contender string, recovery Recovery) {
	if r.Recoveries[scenario] == nil {
		r.Recoveries[scenario] = map[string][]Recovery{}
	}
	r.Recoveries[scenario][contender] = append(r.Recoveries[scenario][contender], recovery)
}

// Median returns a contender's number, or not a number if it has none.
func (r *Results) Median(name, contender string) float64 {
	figure, ok := r.Figures[name]
	if !ok {
		return Median(nil)
	}
	return Median(figure.Rounds[contender])
}
