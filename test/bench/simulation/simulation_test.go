// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	nodes      = flag.Int("nodes", 20, "how many `nodes` there are")
	references = flag.Int("references", 50, "how many `references` each node has")
	runs       = flag.Int("runs", 1, "how often each scenario is run")
	crush      = flag.Bool("crushing", false, "also simulate the crushing load, which takes long")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load is how long one server would work to open all streams.
type load struct {
	name string
	work time.Duration
}

var (
	light    = load{"light", 2 * time.Second}
	heavy    = load{"heavy", 40 * time.Second}
	crushing = load{"crushing", 200 * time.Second}
)

// server returns the options of a server under this load.
func (l load) server() ServerOptions {
	opensPerSecond := float64(*nodes**references) / l.work.Seconds()
	return Server2Cores.times(opensPerSecond / float64(Server2Cores.OpensPerSecond))
}

// compare runs a scenario with several clients in virtual time. It prints the medians as a Markdown table, and returns
// the outcomes of each client.
func compare(t *testing.T, event Event, load load, clients []Client) [][]Outcome {
	t.Helper()
	var table strings.Builder
	fmt.Fprintf(&table, "### %s, %s load: %d nodes × %d references\n\n", event, load.name, *nodes, *references)
	table.WriteString("| client | streams lost | attempts | refused | 429 | peak of a node | all fresh, s |\n" +
		"|---|--:|--:|--:|--:|--:|--:|\n")
	var results [][]Outcome
	for _, client := range clients {
		var outcomes []Outcome
		for range *runs {
			synctest.Test(t, func(t *testing.T) {
				outcomes = append(outcomes, Scenario{*nodes, *references, load.server(), client, event}.Run(t.Context()))
			})
		}
		var fresh []string
		for i := range outcomes[0].Fresh {
			fresh = append(fresh, seconds(median(outcomes, func(o Outcome) time.Duration { return o.Fresh[i] })))
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d | %d | %s |\n", client.Name,
			median(outcomes, func(o Outcome) int { return o.Broken }), median(outcomes, func(o Outcome) int { return o.Attempts }),
			median(outcomes, func(o Outcome) int { return o.Refused }), median(outcomes, func(o Outcome) int { return o.Throttled }),
			median(outcomes, func(o Outcome) int { return o.PeakNode }), strings.Join(fresh, " / "))
		results = append(results, outcomes)
	}
	fmt.Println(table.String()) // t.Log would indent it
	return results
}

// median returns the median of a number, the upper one of two.
func median[T cmp.Ordered](outcomes []Outcome, number func(Outcome) T) T {
	var numbers []T
	for _, o := range outcomes {
		numbers = append(numbers, number(o))
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

func seconds(d time.Duration) string {
	if d >= never {
		return "–"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

const (
	// gateOpens is how many openings a Gate allows at a time while the latency does not matter.
	gateOpens = 32
	// slowestProbe is the shortest pause between two probes of the Gate when they are slowest. fastProbes is how many
	// come before.
	slowestProbe = 2500 * time.Millisecond
	fastProbes   = 11
)

// TestEvents runs all events under all loads, and asserts what holds under every load.
func TestEvents(t *testing.T) {
	gate, ungated, kubelet := 0, 1, 2
	clients := []Client{Refwatch("gate", 0), Ungated(), Kubelet("kubelet", 0), Kubelet("kubelet, 50 QPS", 50)}
	loads := []load{light, heavy}
	if *crush {
		loads = append(loads, crushing)
	}
	for _, load := range loads {
		for _, event := range []Event{Rolling, Outage, Start} {
			t.Run(fmt.Sprintf("%s, %s load", event, load.name), func(t *testing.T) {
				results := compare(t, event, load, clients)
				for i, outcomes := range results {
					for _, o := range outcomes {
						verify(t, clients[i].Name, event, o)
						if (i == gate || load != crushing) && o.end() >= never {
							t.Errorf("%s: not all objects are fresh at the end", clients[i].Name)
						}
					}
				}
				for _, o := range results[gate] {
					verifyGate(t, event, o)
				}
				if event == Outage && load == light {
					verifyOutage(t, results[gate][0], results[ungated][0], results[kubelet][0])
				}
			})
		}
	}
}

// verify asserts what holds for all clients.
func verify(t *testing.T, client string, event Event, o Outcome) {
	t.Helper()
	if event != Start && o.Attempts < o.Broken {
		t.Errorf("%s: got %d attempts to open %d streams again", client, o.Attempts, o.Broken)
	}
	if want := *nodes * *references; event == Outage && o.Broken != want {
		t.Errorf("%s: got %d streams lost, want %d", client, o.Broken, want)
	}
}

// mostAtOnce is how many opens a node may have at a time: as many as its Gate admits, 8 that fail, and a few that take
// much longer than usual and do not count any more.
func mostAtOnce(opens int) int { return 2*opens + 8 + 4 }

// verifyGate asserts what the Gate promises.
func verifyGate(t *testing.T, event Event, o Outcome) {
	t.Helper()
	if o.PeakNode > mostAtOnce(gateOpens) {
		t.Errorf("got %d opens of a node at a time, want at most %d", o.PeakNode, mostAtOnce(gateOpens))
	}
	if event != Outage {
		return
	}
	// The opens that had begun may fail, and those that began before the first failure. Then there are only probes.
	if most := *nodes * (gateOpens + 16 + fastProbes + int(outage/slowestProbe)); o.Refused > most {
		t.Errorf("got %d refused attempts, want at most %d", o.Refused, most)
	}
	// By the second half the probes are slowest.
	if most := *nodes * (1 + int(outage/2/slowestProbe)); o.Late > most {
		t.Errorf("got %d refused attempts in the second half, want at most %d", o.Late, most)
	}
}

// verifyOutage asserts that a Gate sends fewer requests than reflectors without one, and recovers sooner than kubelet's
// manager. The margins are wide: the times are 3 s and 55 s.
func verifyOutage(t *testing.T, gate, ungated, kubelet Outcome) {
	t.Helper()
	if most := ungated.Refused / 5; gate.Refused > most {
		t.Errorf("got %d refused attempts with a gate, want at most a fifth of %d", gate.Refused, ungated.Refused)
	}
	if most := min(kubelet.end()/2, 15*time.Second); gate.end() > most {
		t.Errorf("all fresh after %s with a gate, want at most 15 s and half of %s", gate.end(), kubelet.end())
	}
}

// TestOpens reports the effect of the Gate's bound.
func TestOpens(t *testing.T) {
	bounds := []int{1, 4, 8, 16, 32, 64}
	var clients []Client
	for _, opens := range bounds {
		clients = append(clients, Refwatch(fmt.Sprintf("gate, Opens %d", opens), opens))
	}
	for _, event := range []Event{Rolling, Outage} {
		for i, outcomes := range compare(t, event, heavy, clients) {
			if got := median(outcomes, func(o Outcome) int { return o.PeakNode }); got > mostAtOnce(bounds[i]) {
				t.Errorf("%s: got %d opens of a node at a time, want at most %d", clients[i].Name, got, mostAtOnce(bounds[i]))
			}
		}
	}
}
