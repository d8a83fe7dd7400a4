// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// result is what runs of one scenario came to.
type result struct {
	client string
	runs   []row
}

const header = "| client | streams lost | attempts | refused | 429 | peak/s, all | peak/s, a server | peak in a server | peak of a node | all fresh, s | lowest–highest | stale, s |\n" +
	"|---|---|---|---|---|---|---|---|---|---|---|---|\n"

// table tells results as Markdown: medians over the runs.
func table(title string, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s", title, header)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s ", r.client)
		for _, number := range []func(row) int{
			func(r row) int { return r.Broken }, func(r row) int { return r.Attempts },
			func(r row) int { return r.Refused }, func(r row) int { return r.Throttled },
			func(r row) int { return r.PeakAttempts }, func(r row) int { return r.PeakArrived },
			func(r row) int { return r.PeakServer }, func(r row) int { return r.PeakNode },
		} {
			fmt.Fprintf(&b, "| %d ", middle(r.runs, number))
		}
		fresh := r.each(func(v row) time.Duration { return v.Fresh })
		lowest, highest := fresh[0], fresh[len(fresh)-1]
		fmt.Fprintf(&b, "| %s | %s–%s | %s |\n", r.fresh(), seconds(lowest), seconds(highest),
			seconds(middle(r.runs, func(r row) time.Duration { return r.Stale })))
	}
	return b.String() + "\n"
}

// each returns a figure of all runs, in order.
func (r result) each(figure func(row) time.Duration) []time.Duration {
	var all []time.Duration
	for _, run := range r.runs {
		all = append(all, figure(run))
	}
	slices.Sort(all)
	return all
}

// fresh tells the times of a scenario's phases, each a median.
func (r result) fresh() string {
	var texts []string
	for i := range r.runs[0].each {
		texts = append(texts, seconds(middle(r.runs, func(r row) time.Duration { return r.each[i] })))
	}
	return strings.Join(texts, " / ")
}

// seconds tells a duration.
func seconds(d time.Duration) string {
	if d >= never {
		return "–"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

// middle is the median of a figure, the upper one of two.
func middle[T cmp.Ordered](runs []row, figure func(row) T) T {
	var all []T
	for _, run := range runs {
		all = append(all, figure(run))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
