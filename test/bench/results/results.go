// SPDX-License-Identifier: Apache-2.0

// Package results keeps the figures of the benchmark and shows them as lines, as plots and as a page.
package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// Results are the results of one or more runs.
type Results struct {
	Environment Environment       `json:"environment"`
	Figures     map[string]Figure `json:"figures"`
	// Recoveries has one recovery by scenario and contender: that of the round with the median duration.
	Recoveries map[string]map[string]Recovery `json:"recoveries,omitempty"`
}

// Environment describes the last run.
type Environment struct {
	Date       string `json:"date"` // RFC 3339
	CPUs       int    `json:"cpus"`
	Platform   string `json:"platform"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"` // the server's version
}

// Figure is a number of each contender: the median of its rounds.
type Figure struct {
	Date    string             `json:"date"` // the day when it was measured
	Rounds  int                `json:"rounds"`
	Medians map[string]float64 `json:"medians"`
	// WorstRatio is the greatest ratio of refwatch to kubelet in a round, or 0 if there is none.
	WorstRatio float64 `json:"worstRatio,omitempty"`
}

// Recovery is the number of open streams after an outage, from a second before the server was ready until all were
// open.
type Recovery struct {
	// Seconds is when all were open, since the server was ready.
	Seconds float64 `json:"seconds"`
	// Open has the numbers at equal intervals, from -1 s to Seconds.
	Open []int64 `json:"open"`
}

// recoveryPoints is the length of Recovery.Open.
const recoveryPoints = 101

// NewRecovery returns a recovery. open returns how many streams were open so many seconds after the server was ready.
func NewRecovery(seconds float64, open func(seconds float64) int64) Recovery {
	r := Recovery{Seconds: seconds, Open: make([]int64, recoveryPoints)}
	for i := range r.Open {
		r.Open[i] = open(r.at(i))
	}
	return r
}

// at returns the time of a point.
func (r Recovery) at(point int) float64 {
	return -1 + (r.Seconds+1)*float64(point)/float64(len(r.Open)-1)
}

// Round is the result of one round of a scenario with one contender.
type Round struct {
	Values   map[string]float64 // by figure
	Recovery *Recovery          // from an outage
}

// AddPercentiles adds the p50 and the p99 of samples, in milliseconds.
func (r *Round) AddPercentiles(figure string, samples []time.Duration) {
	slices.Sort(samples)
	for _, percent := range []int{50, 99} {
		rank := (percent*len(samples) + 99) / 100 // the nearest
		r.Values[fmt.Sprintf("%s-p%d-ms", figure, percent)] = float64(samples[rank-1]) / float64(time.Millisecond)
	}
}

// Load returns the saved results, or empty ones if there is no such file.
func Load(path string) (*Results, error) {
	r := &Results{Figures: map[string]Figure{}, Recoveries: map[string]map[string]Recovery{}}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(content, r)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results of earlier runs (remove %s to start over): %w", path, err)
	}
	return r, nil
}

// Save writes the results. An interrupted call leaves the file unchanged.
func (r *Results) Save(path string) error {
	content, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", append(content, '\n'), 0o644),
		os.Rename(path+".new", path))
}

// Add adds the rounds of a scenario by contender, in place of older figures of the same names. It returns the names.
func (r *Results) Add(scenario string, rounds map[string][]Round) []string {
	figures := map[string]Figure{}
	recoveries := map[string]Recovery{}
	worst := worstRatios(rounds[contender.Refwatch], rounds[contender.Kubelet])
	for contender, rounds := range rounds {
		values, all := map[string][]float64{}, []Recovery{}
		for _, round := range rounds {
			for name, value := range round.Values {
				values[name] = append(values[name], value)
			}
			if round.Recovery != nil {
				all = append(all, *round.Recovery)
			}
		}
		for name, values := range values {
			if figures[name].Medians == nil {
				figures[name] = Figure{Date: r.day(), Rounds: len(values), Medians: map[string]float64{}, WorstRatio: worst[name]}
			}
			figures[name].Medians[contender] = median(values)
		}
		if len(all) > 0 {
			slices.SortFunc(all, func(a, b Recovery) int { return cmp.Compare(a.Seconds, b.Seconds) })
			recoveries[contender] = all[len(all)/2]
		}
	}
	maps.Copy(r.Figures, figures)
	if len(recoveries) > 0 {
		r.Recoveries[scenario] = recoveries
	}
	return slices.Sorted(maps.Keys(figures))
}

// day returns the day of the run.
func (r *Results) day() string {
	day, _, _ := strings.Cut(r.Environment.Date, "T")
	return day
}

// worstRatios returns the greatest ratio of two contenders in a round, by figure.
func worstRatios(these, others []Round) map[string]float64 {
	worst := map[string]float64{}
	for i, this := range these[:min(len(these), len(others))] {
		for name, value := range this.Values {
			if other := others[i].Values[name]; value > 0 && other > 0 {
				worst[name] = max(worst[name], value/other)
			}
		}
	}
	return worst
}

// Median returns a contender's number, or NaN if it has none.
func (r *Results) Median(name, contender string) float64 {
	if value, ok := r.Figures[name].Medians[contender]; ok {
		return value
	}
	return math.NaN()
}

// Ratio returns refwatch's number divided by another contender's, or NaN if a number is missing or negative.
func (r *Results) Ratio(name, other string) float64 {
	a, b := r.Median(name, contender.Refwatch), r.Median(name, other)
	if a < 0 || b <= 0 {
		return math.NaN()
	}
	return a / b
}

// Line returns a figure as a line: its name, the medians of the contenders that have one, and the ratio of refwatch to
// kubelet.
func (r *Results) Line(name string) string {
	line := name
	for _, kind := range contender.Kinds {
		if value := r.Median(name, kind.Name); !math.IsNaN(value) {
			line += " " + kind.Name + "=" + Number(value)
		}
	}
	return line + " ratio=" + Number(r.Ratio(name, contender.Kubelet))
}

// Number formats a number with three significant digits, large and whole ones without decimals, and NaN as a dash.
func Number(value float64) string {
	magnitude := math.Abs(value)
	switch {
	case math.IsNaN(value):
		return "–"
	case magnitude >= 100 || value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", value)
	case magnitude >= 1:
		return fmt.Sprintf("%.2f", value)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// median returns the middle one of the values, or the mean of the two in the middle.
func median(values []float64) float64 {
	ordered := slices.Sorted(slices.Values(values))
	middle := len(ordered) / 2
	if len(ordered)%2 == 1 {
		return ordered[middle]
	}
	return (ordered[middle-1] + ordered[middle]) / 2
}
