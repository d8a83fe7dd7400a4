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

// aim is an aim for one of refwatch's figures. All its limits must hold.
type aim struct {
	text, figure string
	limits       []limit
}

// limit bounds the ratio to another contender's number, or the number itself if other is "".
type limit struct {
	most  float64
	other string
}

const kubelet, floor, netHTTP = contender.Kubelet, contender.Floor, contender.RefwatchNetHTTP

var aims = []aim{
	{"heap and stacks per object, bytes", "memory-bytes-per-object-5000", []limit{{0.1, kubelet}, {0.22, floor}, {3500, ""}}},
	{"goroutines per object", "goroutines-per-object-5000", []limit{{0.05, ""}}},
	{"connections dialled to open all", "dials-5000", []limit{{55, ""}}},
	{"connections dialled while pods are replaced", "churn-dials-5000", []limit{{100, ""}}},
	{"register and sync all, seconds", "sync-seconds-5000", []limit{{0.35, kubelet}, {0.65, floor}}},
	{"Gets that failed meanwhile", "failed-gets-5000", []limit{{0, ""}}},
	{"register and first Get, p50, ms", "first-get-p50-ms", []limit{{0.15, kubelet}, {1.6, floor}}},
	{"Get from one goroutine, ns", "get-ns", []limit{{0.35, kubelet}}},
	{"Get on all cores, ns", "get-all-cores-ns", []limit{{0.2, kubelet}}},
	{"bytes allocated by a Get", "get-bytes", []limit{{0, ""}}},
	{"RegisterPod and UnregisterPod, 20 references, ns", "register-unregister-ns", []limit{{0.6, kubelet}}},
	{"update until Get returns it, p50, ms", "update-to-get-p50-ms", []limit{{1, kubelet}}},
	{"update until Get returns it, p99, ms", "update-to-get-p99-ms", []limit{{1, kubelet}}},
	{"CPU for each of 100 updates a second, µs", "cpu-us-per-update", []limit{{0.7, kubelet}}},
	{"update beside a stream of 1 MiB objects until Get returns it, p99, ms", "neighbour-busy-p99-ms",
		[]limit{{1.5, netHTTP}}},
	{"all streams open after an outage of 2 s, seconds since the server was ready", "outage-2s-all-streams-seconds",
		[]limit{{0.7, kubelet}}},
	{"all streams open after an outage of 60 s, seconds since the server was ready", "outage-60s-all-streams-seconds",
		[]limit{{0.06, kubelet}}},
	{"streams left 1 s after the last unregister", "streams-left-5000", []limit{{0, ""}}},
	{"heap after unregistering all, bytes", "heap-after-unregister-bytes-5000", []limit{{0.35, kubelet}}},
}

func (l limit) String() string {
	if l.other == "" {
		return Number(l.most)
	}
	return Number(l.most) + " × " + l.other
}

// reached reports whether the limit holds. It does not hold for a missing number.
func (l limit) reached(r *Results, figure string) bool {
	value := r.Median(figure, contender.Refwatch)
	if l.other != "" {
		value = r.Ratio(figure, l.other)
	}
	return value <= l.most
}

// Page returns the results as docs/performance.md.
func (r *Results) Page() string {
	var page strings.Builder
	e, fewest, most := r.Environment, math.MaxInt, 0
	for _, figure := range r.Figures {
		fewest, most = min(fewest, figure.Rounds), max(most, figure.Rounds)
	}
	fmt.Fprintf(&page, `# Performance

Measured %s on %d CPUs (%s) with Go %s. A real kube-apiserver %s
and its etcd ran on the same machine. Secrets have 100 bytes, pods reference 20 each, and clients use protobuf without a
limit of requests. Every number is the median of %d to %d rounds; in each round all contenders are measured once.
Numbers depend on the machine: compare within the page. *Floor* is a bare stream per object, without a cache, and
refwatch-nethttp is refwatch whose streams are read through net/http; *ratio* is refwatch by kubelet.
[test/bench/doc.go](../test/bench/doc.go) describes the scenarios, and what is not fair about them.

## Aims

| figure | refwatch | kubelet | floor | refwatch-nethttp | ratio to kubelet | at most | reached |
|---|---|---|---|---|---|---|---|
`, e.Date, e.CPUs, e.Platform, strings.TrimPrefix(e.Go, "go"), e.Kubernetes, fewest, most)
	for _, aim := range aims {
		r.writeAim(&page, aim)
	}
	page.WriteString("\n## Plots\n\n")
	for _, plot := range r.plots() {
		fmt.Fprintf(&page, "![%s](../test/bench/out/%s)\n\n", plot.title, plot.file)
	}
	r.writeMany(&page)
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

func (r *Results) writeAim(page *strings.Builder, aim aim) {
	reached, limits := "yes", []string{}
	for _, limit := range aim.limits {
		limits = append(limits, limit.String())
		if !limit.reached(r, aim.figure) {
			reached = "**no**"
		}
	}
	page.WriteString("| " + aim.text + " (`" + aim.figure + "`) |")
	for _, kind := range []string{contender.Refwatch, kubelet, floor, netHTTP} {
		page.WriteString(" " + Number(r.Median(aim.figure, kind)) + " |")
	}
	fmt.Fprintf(page, " %s | %s | %s |\n", Number(r.Ratio(aim.figure, kubelet)), strings.Join(limits, ", "), reached)
}

// many are the figures of very many streams.
var many = []struct{ text, figure string }{
	{"opened, from the first registration until each Get has returned, seconds", "many-open-seconds-100000"},
	{"CPU for that, seconds", "many-open-cpu-seconds-100000"},
	{"heap and stacks per stream, bytes", "many-memory-bytes-per-object-100000"},
	{"most memory that was resident, of the whole process, bytes", "many-peak-resident-bytes-100000"},
	{"goroutines", "many-goroutines-100000"},
	{"connections open", "many-connections-100000"},
	{"connections dialled", "many-dials-100000"},
	{"streams that the server refused", "many-refused-streams-100000"},
	{"each updated once, from the first update until Get has returned all, seconds", "many-update-seconds-100000"},
	{"CPU for that, seconds", "many-update-cpu-seconds-100000"},
	{"closed, from the first UnregisterPod until the server has no stream, seconds", "many-close-seconds-100000"},
	{"CPU for that, seconds", "many-close-cpu-seconds-100000"},
	{"heap after that, bytes", "many-heap-after-close-bytes-100000"},
}

// writeMany writes the section of very many streams, if they were measured.
func (r *Results) writeMany(page *strings.Builder) {
	if len(r.Figures[many[0].figure].Medians) == 0 {
		return
	}
	page.WriteString(`## 100,000 streams

` + "`go run . -scenarios many -contenders refwatch,refwatch-nethttp`" + ` in test/bench: against a stub server
in a process of its own on the same CPUs, with 100 streams on a connection. The figures are those of the client.

| figure | refwatch | refwatch-nethttp |
|---|---|---|
`)
	for _, row := range many {
		fmt.Fprintf(page, "| %s | %s | %s |\n", row.text,
			Number(r.Median(row.figure, contender.Refwatch)), Number(r.Median(row.figure, netHTTP)))
	}
	page.WriteString("\n")
}
