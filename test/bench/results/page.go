// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// Page returns the results as docs/performance.md.
func (r *Results) Page() string {
	var page strings.Builder
	e, fewest, most := r.Environment, math.MaxInt, 0
	for _, figure := range r.Figures {
		fewest, most = min(fewest, figure.Rounds), max(most, figure.Rounds)
	}
	fmt.Fprintf(&page, `# Performance

Measured %s on %d CPUs (%s) with Go %s. A real kube-apiserver %s
and its etcd ran on the same machine. Secrets have 100 bytes and nobody else writes, unless a row says otherwise. Pods
reference 20 each, and clients use protobuf without a limit of requests. Every number is the median of %d to %d rounds;
in each round all contenders are measured once. Numbers depend on the machine: compare within the page. *Floor* is a
bare stream per object, without a cache, and refwatch-nethttp is refwatch whose streams are read through net/http;
*ratio* is refwatch by kubelet.
[test/bench/doc.go](../test/bench/doc.go) describes the scenarios, and what is not fair about them. The `+"`shared-*`"+`
figures are of 2026-11-22, from 3 rounds, before open streams were parked: each of refwatch's 300 had two goroutines.

`, e.Date, e.CPUs, e.Platform, strings.TrimPrefix(e.Go, "go"), e.Kubernetes, fewest, most)
	r.writeAims(&page)
	page.WriteString("\n## Plots\n\n")
	for _, plot := range r.plots() {
		fmt.Fprintf(&page, "![%s](../test/bench/out/%s)\n\n", plot.title, plot.file)
	}
	r.writeSections(&page)
	page.WriteString("## All figures\n\n| figure |")
	for _, kind := range contender.Kinds {
		page.WriteString(" " + kind.Name + " |")
	}
	page.WriteString(" ratio |\n|---" + strings.Repeat("|---", len(contender.Kinds)) + "|---|\n")
	for _, name := range slices.Sorted(maps.Keys(r.Figures)) {
		page.WriteString("| `" + name + "` |")
		for _, kind := range contender.Kinds {
			page.WriteString(" " + Number(r.Median(name, kind.Name)) + " |")
		}
		page.WriteString(" " + Number(r.Ratio(name, kubelet)) + " |\n")
	}
	return page.String()
}
