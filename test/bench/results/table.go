// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
)

// reach is one row of what is to be reached.
type reach struct {
	text, figure string
	// below are the limits that hold for refwatch's number. All must.
	below []limit
}

// limit bounds the ratio to another contender's number, or the number itself if there is no other.
type limit struct {
	most  float64
	other string
}

func ofKubelet(most float64) limit { return limit{most, Kubelet} }
func ofFloor(most float64) limit   { return limit{most, Floor} }
func inAll(most float64) limit     { return limit{most, ""} }

// rows are what is to be reached, with the sizes that were measured.
func rows(size, largest int) []reach {
	sized := func(name string, size int) string { return fmt.Sprint(name, "-", size) }
	return []reach{
		{"heap and stacks per object, bytes", sized("memory-bytes-per-object", size), []limit{ofKubelet(0.42), ofFloor(1.2)}},
		{"goroutines per object", sized("goroutines-per-object", size), []limit{inAll(2.1)}},
		{"register and sync all, seconds", sized("sync-seconds", size), []limit{ofKubelet(0.35)}},
		{"Gets that failed meanwhile", sized("failed-gets", size), []limit{inAll(0)}},
		{"register and first Get, p50, ms", "first-get-p50-ms", []limit{ofKubelet(0.15), ofFloor(1.6)}},
		{"Get from one goroutine, ns", "get-ns", []limit{ofKubelet(0.35)}},
		{"Get on all cores, ns", "get-all-cores-ns", []limit{ofKubelet(0.2)}},
		{"bytes allocated by a Get", "get-bytes", []limit{inAll(0)}},
		{"RegisterPod and UnregisterPod, 20 references, ns", "register-unregister-ns", []limit{ofKubelet(0.6)}},
		{"update until Get tells, p50, ms", "update-to-get-p50-ms", []limit{ofKubelet(1)}},
		{"update until Get tells, p99, ms", "update-to-get-p99-ms", []limit{ofKubelet(1)}},
		{"60 s without a server: all streams open again, seconds after it is ready", "outage-60s-all-streams-seconds", []limit{ofKubelet(0.1)}},
		{"streams left 1 s after the last unregister", sized("streams-left", size), []limit{inAll(0)}},
		{"heap after unregistering all, bytes", sized("heap-after-unregister-bytes", largest), []limit{ofKubelet(0.5)}},
	}
}

// text tells a limit.
func (l limit) text() string {
	switch {
	case l.other != "":
		return fmt.Sprintf("%s × %s", Number(l.most), l.other)
	default:
		return Number(l.most)
	}
}

// reached tells whether the limit holds. It does not where a number is missing.
func (l limit) reached(r *Results, figure string) bool {
	value := r.Median(figure, Refwatch)
	if l.other != "" {
		value = r.Ratio(figure, l.other)
	}
	return !math.IsNaN(value) && value <= l.most
}

// Page returns the results as Markdown. The plots are in the folder plots, as seen from where the page will be.
func (r *Results) Page(plots string) string {
	var page strings.Builder
	page.WriteString("# Performance\n\n")
	r.writeEnvironment(&page)
	r.writeReach(&page)
	r.writePlots(&page, plots)
	r.writeFigures(&page)
	return page.String()
}

func (r *Results) writeEnvironment(page *strings.Builder) {
	e := r.Environment
	if e.Quick {
		page.WriteString("**A quick look at small sizes, not a result.**\n\n")
	}
	fmt.Fprintf(page, "Measured %s on %d CPUs (%s) with Go %s and a real kube-apiserver %s and its etcd on the same machine: "+
		"secrets of 100 bytes, pods that reference 20 each, protobuf, no client limit of requests. Every number is the "+
		"median of %s rounds, in which the contenders took turns. Sizes move with the machine; compare within the page. "+
		"What is measured how, and what is not fair about it, is said in [test/bench/doc.go](../test/bench/doc.go).\n\n",
		e.Date, e.CPUs, e.Platform, strings.TrimPrefix(e.Go, "go"), e.Kubernetes, r.rounds())
}

// rounds tells how many there were at least, and at most.
func (r *Results) rounds() string {
	fewest, most := math.MaxInt, 0
	for _, figure := range r.Figures {
		for _, rounds := range figure.Rounds {
			fewest, most = min(fewest, len(rounds)), max(most, len(rounds))
		}
	}
	if fewest >= most {
		return fmt.Sprint(most)
	}
	return fmt.Sprintf("%d to %d", fewest, most)
}

// sizes returns the size of most rows, and the largest. Memory may have been measured at others than the last run.
func (r *Results) sizes() (size, largest int) {
	size = r.Environment.Size
	measured := r.sizesOf("memory-bytes-per-object")
	if len(measured) == 0 {
		return size, size
	}
	largest = measured[len(measured)-1]
	if !slices.Contains(measured, size) {
		size = largest
	}
	return size, largest
}

func (r *Results) writeReach(page *strings.Builder) {
	page.WriteString("## Reach\n\n| figure | refwatch | kubelet | floor | ratio to kubelet | at most | reached |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, row := range rows(r.sizes()) {
		limits, reached := []string{}, "yes"
		for _, limit := range row.below {
			limits = append(limits, limit.text())
			if !limit.reached(r, row.figure) {
				reached = "**no**"
			}
		}
		if math.IsNaN(r.Median(row.figure, Refwatch)) {
			reached = Missing
		}
		fmt.Fprintf(page, "| %s (`%s`) | %s | %s | %s | %s | %s | %s |\n", row.text, row.figure,
			Number(r.Median(row.figure, Refwatch)), Number(r.Median(row.figure, Kubelet)), Number(r.Median(row.figure, Floor)),
			Number(r.Ratio(row.figure, Kubelet)), strings.Join(limits, ", "), reached)
	}
	page.WriteString("\n")
}

func (r *Results) writePlots(page *strings.Builder, folder string) {
	page.WriteString("## Plots\n\n")
	for _, plot := range r.plots() {
		fmt.Fprintf(page, "![%s](%s)\n\n", plot.title, filepath.ToSlash(filepath.Join(folder, plot.file)))
	}
}

func (r *Results) writeFigures(page *strings.Builder) {
	page.WriteString("## All figures\n\n")
	contenders := append([]string{}, always...)
	contenders = append(contenders, "refwatch-clientgo", "controller-runtime")
	page.WriteString("| figure | " + strings.Join(contenders, " | ") + " | ratio |\n|---" + strings.Repeat("|---", len(contenders)) + "|---|\n")
	for _, name := range r.Names("") {
		cells := []string{"`" + name + "`"}
		for _, contender := range contenders {
			cells = append(cells, Number(r.Median(name, contender)))
		}
		fmt.Fprintf(page, "| %s | %s |\n", strings.Join(cells, " | "), Number(r.Ratio(name, Kubelet)))
	}
}
