// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"strings"
)

// Page returns the results as docs/results/performance.md.
func (r *Results) Page() string {
	var page strings.Builder
	e, first := r.Environment, r.day()
	for _, figure := range r.Figures {
		first = min(first, figure.Date)
	}
	fmt.Fprintf(&page, `# Performance

Measured from %s to %s on %d CPUs (%s) with Go %s. A real kube-apiserver %s
and its etcd ran on the same machine, so compare numbers of this page only, and of one day. Secrets have 100 bytes and
nobody else writes, unless a row says otherwise. Pods reference 20 each. Clients use protobuf and have no rate limit.
Every number is the median of so many rounds of all contenders as the last column says. *Floor* is a bare stream per
object, read with client-go's decoder, without a cache; refwatch-nethttp reads its streams through net/http.
[test/bench/doc.go](../../test/bench/doc.go) describes the scenarios, and what is not fair about them.
[results.json](../../test/bench/out/results.json) has all figures. `+"`make bench`"+` writes this page.

`, first, r.day(), e.CPUs, e.Platform, strings.TrimPrefix(e.Go, "go"), e.Kubernetes)
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

// measured returns in how many rounds, and when, a figure was measured.
func (r *Results) measured(figure string) string {
	switch f := r.Figures[figure]; f.Rounds {
	case 0:
		return "–"
	case 1:
		return "1 round, " + f.Date
	default:
		return fmt.Sprintf("%d rounds, %s", f.Rounds, f.Date)
	}
}
