// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Missing stands for a number that there is none of.
const Missing = "–"

// The contenders by name, and those that every line tells of.
const (
	Refwatch = "refwatch"
	Kubelet  = "kubelet"
	Informer = "informer"
	Floor    = "floor"
)

var always = []string{Refwatch, Kubelet, Informer, Floor}

// Line returns a figure as one line: its name, the medians, the ratio of refwatch to kubelet, and then the
// contenders that not everybody is interested in.
func (r *Results) Line(name string) string {
	pair := func(contender string) string { return contender + "=" + Number(r.Median(name, contender)) }
	line := []string{name}
	for _, contender := range always {
		line = append(line, pair(contender))
	}
	line = append(line, "ratio="+Number(r.Ratio(name, Kubelet)))
	for _, contender := range r.contenders(name) {
		if !slices.Contains(always, contender) {
			line = append(line, pair(contender))
		}
	}
	return strings.Join(line, " ")
}

// Ratio returns what refwatch's number is of another contender's.
func (r *Results) Ratio(name, other string) float64 {
	return Ratio(r.Median(name, Refwatch), r.Median(name, other))
}

// contenders are those with a number for a figure, in order.
func (r *Results) contenders(name string) []string {
	var names []string
	if figure, ok := r.Figures[name]; ok {
		for contender := range figure.Rounds {
			names = append(names, contender)
		}
	}
	slices.Sort(names)
	return names
}

// Names are those of a scenario's figures, in order; of all, if the scenario is "".
func (r *Results) Names(scenario string) []string {
	var names []string
	for name, figure := range r.Figures {
		if scenario == "" || figure.Scenario == scenario {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareNames)
	return names
}

// compareNames orders sizes at the end of names as numbers.
func compareNames(a, b string) int {
	aName, aSize := splitSize(a)
	bName, bSize := splitSize(b)
	if order := strings.Compare(aName, bName); order != 0 {
		return order
	}
	return aSize - bSize
}

// splitSize splits NAME-SIZE. A name without a size has size 0.
func splitSize(name string) (string, int) {
	at := strings.LastIndexByte(name, '-')
	size, err := strconv.Atoi(name[at+1:])
	if at < 0 || err != nil {
		return name, 0
	}
	return name[:at], size
}

// Number writes a number with three digits that count, and whole ones whole.
func Number(value float64) string {
	magnitude := math.Abs(value)
	switch {
	case math.IsNaN(value) || math.IsInf(value, 0):
		return Missing
	case magnitude >= 100 || value == math.Trunc(value):
		return fmt.Sprintf("%.0f", value)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", value)
	case magnitude >= 1:
		return fmt.Sprintf("%.2f", value)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}
