// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// size returns the size that the environment asks for, or 20 nodes with 50 references and one run.
func size(t *testing.T) (nodes, references, runs int) {
	nodes, references, runs = 20, 50, 1
	if text := os.Getenv("SIMULATION_SIZE"); text != "" {
		if _, err := fmt.Sscanf(text, "%dx%d", &nodes, &references); err != nil {
			t.Fatalf("SIMULATION_SIZE=%s: want nodes x references, like 200x100: %v", text, err)
		}
	}
	if text := os.Getenv("SIMULATION_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil || runs < 1 {
			t.Fatalf("SIMULATION_RUNS=%s: want a number above 0", text)
		}
	}
	return nodes, references, runs
}

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

// server returns the options of a server under the load of so many objects.
func (l load) server(objects int) ServerOptions {
	return Server2Cores.times(float64(objects) / l.work.Seconds() / float64(Server2Cores.OpensPerSecond))
}

// run runs a scenario in virtual time.
func run(t *testing.T, s Scenario, runs int) result {
	t.Helper()
	r := result{client: s.Client.Name}
	for range runs {
		synctest.Test(t, func(t *testing.T) { r.runs = append(r.runs, s.Run(t.Context())) })
	}
	return r
}

// result has the outcomes of one scenario.
type result struct {
	client string
	runs   []Outcome
}

// median returns the median of a number, the upper one of two.
func median[T cmp.Ordered](r result, number func(Outcome) T) T {
	var numbers []T
	for _, o := range r.runs {
		numbers = append(numbers, number(o))
	}
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// report logs results as a Markdown table, and appends it to the file that the environment names.
func report(t *testing.T, title string, results []result) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n| client | streams lost | attempts | refused | 429 | peak/s, all | peak/s, a server | peak in a server |"+
		" peak of a node | all fresh, s | lowest–highest | stale, s |\n|---%s|\n", title, strings.Repeat("|---", 11))
	for _, r := range results {
		fmt.Fprintf(&b, "| %s |", r.client)
		for _, number := range []func(Outcome) int{
			func(o Outcome) int { return o.Broken }, func(o Outcome) int { return o.Attempts },
			func(o Outcome) int { return o.Refused }, func(o Outcome) int { return o.Throttled },
			func(o Outcome) int { return o.PeakAttempts }, func(o Outcome) int { return o.PeakArrived },
			func(o Outcome) int { return o.PeakServer }, func(o Outcome) int { return o.PeakNode },
		} {
			fmt.Fprintf(&b, " %d |", median(r, number))
		}
		var fresh []string
		for i := range r.runs[0].Fresh {
			fresh = append(fresh, seconds(median(r, func(o Outcome) time.Duration { return o.Fresh[i] })))
		}
		byEnd := func(a, b Outcome) int { return cmp.Compare(a.end(), b.end()) }
		fmt.Fprintf(&b, " %s | %s–%s | %s |\n", strings.Join(fresh, " / "), seconds(slices.MinFunc(r.runs, byEnd).end()),
			seconds(slices.MaxFunc(r.runs, byEnd).end()), seconds(median(r, func(o Outcome) time.Duration { return o.Stale })))
	}
	t.Log("\n" + b.String())
	if path := os.Getenv("SIMULATION_OUT"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintln(file, b.String())
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func seconds(d time.Duration) string {
	if d >= never {
		return "–"
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}

const (
	// gateOpens is the Gate's default.
	gateOpens = 32
	// slowestProbe is the shortest pause between two probes of the Gate when they are slowest. fastProbes is how many
	// come before.
	slowestProbe = 2500 * time.Millisecond
	fastProbes   = 11
)

// TestEvents runs all events under all loads, and asserts what holds under every load.
func TestEvents(t *testing.T) {
	nodes, references, runs := size(t)
	clients := []Client{
		Refwatch("gate", 0), Refwatch("gate, no bound", 1<<30), Ungated(),
		Kubelet("kubelet, 50 QPS", 50), Kubelet("kubelet, no QPS limit", 0),
	}
	loads := []load{light, heavy}
	if os.Getenv("SIMULATION_SIZE") != "" {
		loads = append(loads, crushing) // takes long
	}
	for _, load := range loads {
		for _, event := range []Event{Rolling, Outage, Start} {
			var results []result
			for i, client := range clients {
				r := run(t, Scenario{nodes, references, load.server(nodes * references), client, event}, runs)
				results = append(results, r)
				for _, o := range r.runs {
					name := fmt.Sprintf("%s, %s load, %s", event, load.name, client.Name)
					verify(t, name, event, o, nodes*references, i == 0 || load != crushing)
					if i == 0 {
						verifyGate(t, name, event, o, nodes)
					}
				}
			}
			report(t, fmt.Sprintf("%s, %s load: %d nodes × %d references", event, load.name, nodes, references), results)
		}
	}
}

// verify asserts what holds for all clients.
func verify(t *testing.T, name string, event Event, o Outcome, objects int, fresh bool) {
	t.Helper()
	if fresh && o.end() >= never {
		t.Errorf("%s: not all objects are fresh at the end", name)
	}
	if event != Start && o.Attempts < o.Broken {
		t.Errorf("%s: got %d attempts to open %d streams again", name, o.Attempts, o.Broken)
	}
	if event == Outage && o.Broken != objects {
		t.Errorf("%s: got %d streams lost, want %d", name, o.Broken, objects)
	}
}

// mostAtOnce is how many opens a node may have at a time: as many as its Gate admits, 8 that fail, and a few that take
// much longer than usual and do not count any more.
func mostAtOnce(opens int) int { return 2*opens + 8 + 4 }

// verifyGate asserts what the Gate promises.
func verifyGate(t *testing.T, name string, event Event, o Outcome, nodes int) {
	t.Helper()
	if o.PeakNode > mostAtOnce(gateOpens) {
		t.Errorf("%s: got %d opens of a node at a time, want at most %d", name, o.PeakNode, mostAtOnce(gateOpens))
	}
	if event != Outage {
		return
	}
	// The opens that had begun may fail, and those that began before the first failure. Then there are only probes.
	if most := nodes * (gateOpens + 16 + fastProbes + int(outage/slowestProbe)); o.Refused > most {
		t.Errorf("%s: got %d refused attempts, want at most %d", name, o.Refused, most)
	}
	// By the second half the probes are slowest.
	if most := nodes * (1 + int(outage/2/slowestProbe)); o.Late > most {
		t.Errorf("%s: got %d refused attempts in the second half, want at most %d", name, o.Late, most)
	}
}

// TestGateInAnOutage asserts that a Gate sends fewer requests than reflectors without one, and recovers sooner than
// kubelet's manager. The margins are wide: the times are 5 s and 55 s.
func TestGateInAnOutage(t *testing.T) {
	const nodes, references = 10, 50
	outcome := func(client Client) Outcome {
		return run(t, Scenario{nodes, references, light.server(nodes * references), client, Outage}, 1).runs[0]
	}
	gate, ungated, kubelet := outcome(Refwatch("gate", 0)), outcome(Ungated()), outcome(Kubelet("kubelet", 0))
	if got, want := gate.Refused, ungated.Refused/5; got > want {
		t.Errorf("got %d refused attempts with a gate, want at most a fifth of %d", got, ungated.Refused)
	}
	if got, want := gate.end(), min(kubelet.end()/2, 15*time.Second); got > want {
		t.Errorf("all fresh after %s with a gate, want at most 15 s and half of %s", got, kubelet.end())
	}
}

// TestOpens reports the effect of the Gate's bound.
func TestOpens(t *testing.T) {
	nodes, references, runs := size(t)
	for _, event := range []Event{Rolling, Outage} {
		var results []result
		for _, opens := range []int{1, 4, 8, 16, 32, 64} {
			client := Refwatch(fmt.Sprintf("gate, Opens %d", opens), opens)
			r := run(t, Scenario{nodes, references, heavy.server(nodes * references), client, event}, runs)
			if got := median(r, func(o Outcome) int { return o.PeakNode }); got > mostAtOnce(opens) {
				t.Errorf("got %d opens of a node at a time, want at most %d", got, mostAtOnce(opens))
			}
			results = append(results, r)
		}
		report(t, fmt.Sprintf("%s, heavy load, by Opens: %d nodes × %d references", event, nodes, references), results)
	}
}
