// SPDX-License-Identifier: Apache-2.0

package results

import (
	"fmt"
	"math"
	"strings"

	"github.com/refwatch/refwatch/test/bench/contender"
)

// aim is an aim for one of refwatch's figures. All its limits must hold.
type aim struct {
	text, conditions, figure string
	limits                   []limit
	missed                   string // why, if it is missed
}

// limit bounds the ratio to another contender's number, or the number itself if other is "".
type limit struct {
	most  float64
	other string
}

const kubelet, informer, floor, netHTTP = contender.Kubelet, contender.Informer, contender.Floor, contender.RefwatchNetHTTP

// everyRound is the other of a limit that bounds the ratio to kubelet in each round, and not that of the medians.
const everyRound = "kubelet in every round"

// The conditions of most figures.
const (
	quiet = "quiet, 100 B"
	busy  = "busy, 100 B"
)

// readAgain is why more is received than kubelet receives.
const readAgain = "Each stream that opens again reads its whole object again. kubelet\n" +
	"  resumes a watch, which sends only what has changed."

var aims = []aim{
	{"heap and stacks per object, bytes", quiet, "memory-bytes-per-object-5000",
		[]limit{{0.1, kubelet}, {0.22, floor}, {2500, ""}}, ""},
	{"goroutines per object", quiet, "goroutines-per-object-5000", []limit{{0.05, ""}}, ""},
	{"connections dialled to open all", quiet, "dials-5000", []limit{{55, ""}}, ""},
	{"connections dialled while pods are replaced", "stub server, 100 B", "churn-dials-5000", []limit{{100, ""}}, ""},
	{"register and sync all, seconds", quiet, "sync-seconds-5000", []limit{{1.3, ""}, {0.25, kubelet}, {0.65, floor}},
		"Most of the time is the server's, see `server-cpu-ms-per-object-5000`. It shares the CPUs\n  with the client."},
	{"register and sync all, seconds", busy, "sync-busy-seconds-5000", []limit{{2.5, ""}, {1, everyRound}},
		"Each opening is a consistent read. While others write, kube-apiserver answers those\n  every 100 ms."},
	{"register and sync all, seconds", "1.4 s per answer, 100 B", "sync-latency-seconds-5000", []limit{{9, ""}},
		""},
	{"register and sync 41, seconds", "0.1 s away, 100 B", "far-100ms-seconds-41", []limit{{1.5, informer}}, ""},
	{"register and sync 41, seconds", "0.5 s away, 100 B", "far-500ms-seconds-41", []limit{{1.5, informer}}, ""},
	{"register and sync 41, seconds", "1.4 s away, 100 B", "far-1400ms-seconds-41", []limit{{1.5, informer}}, ""},
	{"register and sync 41, seconds", "4 s away, 100 B", "far-4s-seconds-41", []limit{{1.5, informer}}, ""},
	{"register and sync 1,000, seconds", "0.5 s away, 100 B", "far-500ms-seconds-1000", []limit{{1.5, informer}},
		"A connection takes two round trips, and the Gate opens more streams with each answer:\n" +
			"  eleven round trips in all, where informers open all at once."},
	{"Gets that failed meanwhile", quiet, "failed-gets-5000", []limit{{0, ""}}, ""},
	{"register and first Get, p50, ms", quiet, "first-get-p50-ms", []limit{{0.15, kubelet}, {1.6, floor}},
		"Nearly all of it is the server's: the floor takes as long. The server's time depends\n  on the machine. kubelet polls at fixed times."},
	{"Get from one goroutine, ns", quiet, "get-ns", []limit{{35, ""}, {0.35, kubelet}},
		"5,000 objects are got in turn, and the name of each is read: the floor takes nearly as long. One\n" +
			"  object takes 22 to 28 ns (`BenchmarkGet`)."},
	{"Get on all cores, ns", quiet, "get-all-cores-ns", []limit{{0.2, kubelet}}, ""},
	{"bytes allocated by a Get", quiet, "get-bytes", []limit{{0, ""}}, ""},
	{"RegisterPod and UnregisterPod, 20 references, ns", "no server", "register-unregister-ns", []limit{{0.6, kubelet}}, ""},
	{"update until Get returns it, p50, ms", "stub server, 100 B", "update-stub-p50-ms", []limit{{1, kubelet}}, ""},
	{"update until Get returns it, p99, ms", "stub server, 100 B", "update-stub-p99-ms", []limit{{1, kubelet}}, ""},
	{"CPU for each of 100 updates a second, µs", quiet, "cpu-us-per-update", []limit{{0.75, kubelet}, {1, floor}},
		"Most of it is reading the connection: a wake, a system call and TLS for each event."},
	{"CPU for each bookmark of 5,000 streams, µs", "quiet, 100 B", "cpu-us-per-bookmark", []limit{{100, ""}}, ""},
	{"update until Get returns it, p99, ms", "beside a stream of 1 MiB objects", "neighbour-busy-p99-ms",
		[]limit{{1.5, netHTTP}}, ""},
	{"all streams open, seconds since the server was ready", "after 2 s without the server", "outage-2s-all-streams-seconds",
		[]limit{{0.7, kubelet}}, ""},
	{"all streams open, seconds since the server was ready", "after 60 s without the server", "outage-60s-all-streams-seconds",
		[]limit{{0.06, kubelet}}, ""},
	{"bytes received after all connections were cut", "500 × 100 kB", "cut-bytes-100kB", []limit{{1.5, kubelet}}, readAgain},
	{"bytes received after all connections were cut", "100 × 1 MiB", "cut-bytes-1MiB", []limit{{1.5, kubelet}}, readAgain},
	{"CPU for that, seconds", "500 × 100 kB", "cut-client-cpu-seconds-100kB", []limit{{1.5, kubelet}}, readAgain},
	{"CPU for that, seconds", "100 × 1 MiB", "cut-client-cpu-seconds-1MiB", []limit{{1.5, kubelet}}, readAgain},
	{"streams left 1 s after the last unregister", quiet, "streams-left-5000", []limit{{0, ""}}, ""},
	{"heap after unregistering all, bytes", quiet, "heap-after-unregister-bytes-5000", []limit{{0.35, kubelet}}, ""},
}

// notes say what the numbers do not.
const notes = `
Notes:

- ` + "`sync-latency-seconds-5000`" + `: The Gate begins with 16 openings at a time. With each round of answers it has four
  times as many, and twice as many from 400 openings a second on.
- ` + "`update-stub-p50-ms`" + `: A pause of 50 µs in the scenario lasts up to 1.1 ms in an idle Go process, which adds to the
  numbers above 1 ms. On the real server the contenders hardly differ: see the table below.
`

func (l limit) String() string {
	if l.other == "" {
		return Number(l.most)
	}
	return Number(l.most) + " × " + l.other
}

// reached reports whether the limit holds. It does not hold for a missing number.
func (l limit) reached(r *Results, figure string) bool {
	switch l.other {
	case "":
		return r.Median(figure, contender.Refwatch) <= l.most
	case everyRound:
		worst := r.Figures[figure].WorstRatio
		return worst > 0 && worst <= l.most
	}
	return r.Ratio(figure, l.other) <= l.most
}

// result returns whether all limits of an aim hold, as the page shows it.
func (a aim) result(r *Results) string {
	if math.IsNaN(r.Median(a.figure, contender.Refwatch)) {
		return notMeasured
	}
	for _, limit := range a.limits {
		if !limit.reached(r, a.figure) {
			return notReached
		}
	}
	return "yes"
}

const notReached, notMeasured = "**no**", "not measured"

// writeAims writes the table of the aims, and why some are missed.
func (r *Results) writeAims(page *strings.Builder) {
	page.WriteString(`## Aims

| figure | conditions | refwatch | kubelet | floor | refwatch-nethttp | ratio to kubelet | at most | reached | measured |
|---|---|---|---|---|---|---|---|---|---|
`)
	missed := ""
	for _, aim := range aims {
		var limits []string
		ratio := Number(r.Ratio(aim.figure, kubelet))
		for _, limit := range aim.limits {
			limits = append(limits, limit.String())
			if worst := r.Figures[aim.figure].WorstRatio; limit.other == everyRound && worst > 0 {
				ratio += ", in the worst round " + Number(worst)
			}
		}
		result := aim.result(r)
		fmt.Fprintf(page, "| %s (`%s`) | %s |", aim.text, aim.figure, aim.conditions)
		for _, kind := range []string{contender.Refwatch, kubelet, floor, netHTTP} {
			page.WriteString(" " + Number(r.Median(aim.figure, kind)) + " |")
		}
		fmt.Fprintf(page, " %s | %s | %s | %s |\n", ratio, strings.Join(limits, ", "), result, r.measured(aim.figure))
		if result == notReached {
			missed += "- `" + aim.figure + "`: " + aim.missed + "\n"
		}
	}
	if missed != "" {
		page.WriteString("\nWhy an aim is missed:\n\n" + missed)
	}
	page.WriteString(notes)
}
