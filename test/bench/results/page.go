// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"strings"
)

// Page returns the results as docs/results/performance.md.
func (r *Results) Page() string {
	var page strings.Builder
	e, fewest, most, first := r.Environment, math.MaxInt, 0, r.day()
	for _, figure := range r.Figures {
		fewest, most, first = min(fewest, figure.Rounds), max(most, figure.Rounds), min(first, figure.Date)
	}
	fmt.Fprintf(&page, `# Performance

Measured from %s to %s on %d CPUs (%s) with Go %s. A real kube-apiserver %s
and its etcd ran on the same machine, so compare within the page. Secrets have 100 bytes and nobody else writes, unless
a row says otherwise. Pods reference 20 each. Clients use protobuf without a limit of requests. Every number is the
median of %d to %d rounds of all contenders. *Floor* is a bare stream per object, without a cache; refwatch-nethttp
reads its streams through net/http. [test/bench/doc.go](../../test/bench/doc.go) describes the scenarios, and what is
not fair about them. [results.json](../../test/bench/out/results.json) has all figures, and the day of each: those of
one day may be compared. `+"`make bench`"+` writes this page.

`, first, r.day(), e.CPUs, e.Platform, strings.TrimPrefix(e.Go, "go"), e.Kubernetes, fewest, most)
	r.writeAims(&page)
	page.WriteString("\n## Plots\n\n")
	for _, plot := range r.plots() {
		fmt.Fprintf(&page, "![%s](../../test/bench/out/%s)\n\n", plot.title, plot.file)
	}
	r.writeSections(&page)
	r.writeGrowth(&page)
	page.WriteString(compression)
	return strings.TrimSuffix(page.String(), "\n")
}
