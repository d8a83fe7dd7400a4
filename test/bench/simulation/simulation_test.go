// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// size is what the environment asks for, or 20 nodes with 50 references, once.
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

// load says how long one server would work to open all streams.
type load struct {
	name string
	work time.Duration
}

var (
	light    = load{"light", 2 * time.Second}
	heavy    = load{"heavy", 40 * time.Second}
	crushing = load{"crushing", 200 * time.Second}
)

// server is one under the load of so many objects: a measured server, made
// larger or smaller.
func (l load) server(objects int) ServerOptions {
	return Server2Cores.times(float64(objects) / l.work.Seconds() / float64(Server2Cores.OpensPerSecond))
}

// play runs a scenario in virtual time.
func play(t *testing.T, s Scenario) row {
	t.Helper()
	var phases []Phase
	synctest.Test(t, func(t *testing.T) { phases = s.Run(t.Context()) })
	return summarise(phases)
}

// write adds a table to the file that the environment names.
func write(t *testing.T, text string) {
	t.Helper()
	t.Log("\n" + text)
	path := os.Getenv("SIMULATION_OUT")
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatalf("writing SIMULATION_OUT: %v", err)
	}
}

const (
	// gateOpens is the Gate's default.
	gateOpens = 32
	// slowestProbe is the shortest pause between two probes once they are as
	// slow as they get; fastProbes is how many there are before that.
	slowestProbe = 2500 * time.Millisecond
	fastProbes   = 11
)

// TestEvents plays all events under all loads, and asserts what must hold
// whatever the load.
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
		server := load.server(nodes * references)
		for _, event := range []Event{Rolling, Outage, Start} {
			var results []result
			for _, client := range clients {
				r := result{client: client.Name}
				for range runs {
					r.runs = append(r.runs, play(t, Scenario{nodes, references, server, client, event}))
				}
				results = append(results, r)
			}
			write(t, table(fmt.Sprintf("%s, %s load: %d nodes × %d references", event, load.name, nodes, references), results))
			verify(t, load, event, results, nodes*references)
			for _, run := range results[0].runs {
				verifyGate(t, load, event, run, nodes)
			}
		}
	}
}

// verify asserts what holds for all clients.
func verify(t *testing.T, load load, event Event, results []result, objects int) {
	t.Helper()
	for _, r := range results {
		for _, run := range r.runs {
			if run.Fresh >= never && load != crushing {
				t.Errorf("%s, %s load, %s: not all objects are fresh in the end", event, load.name, r.client)
			}
			if event != Start && run.Attempts < run.Broken {
				t.Errorf("%s, %s load, %s: got %d attempts to open %d streams again", event, load.name, r.client, run.Attempts, run.Broken)
			}
			if event == Outage && run.Broken != objects {
				t.Errorf("outage, %s load, %s: got %d streams lost, want %d", load.name, r.client, run.Broken, objects)
			}
		}
	}
}

// mostAtOnce is how many opens of a node there may be at once: as many as its Gate
// admits, 8 of those that fail, and some that take much longer than usual and do not
// count any more.
func mostAtOnce(opens int) int { return 2*opens + 8 + 4 }

// verifyGate asserts what the Gate promises.
func verifyGate(t *testing.T, load load, event Event, run row, nodes int) {
	t.Helper()
	if run.Fresh >= never {
		t.Errorf("%s, %s load: not all objects are fresh in the end", event, load.name)
	}
	if run.PeakNode > mostAtOnce(gateOpens) {
		t.Errorf("%s, %s load: got %d opens of a node at once, want at most %d", event, load.name, run.PeakNode, mostAtOnce(gateOpens))
	}
	if event != Outage {
		return
	}
	// All that had begun may fail, and those that followed the first of them, then one
	// at a time.
	if most := nodes * (gateOpens + 16 + fastProbes + int(outage/slowestProbe)); run.Refused > most {
		t.Errorf("outage, %s load: got %d refused attempts, want at most %d", load.name, run.Refused, most)
	}
	// By then the pauses are as long as they get.
	if most := nodes * (1 + int(outage/2/slowestProbe)); run.Late > most {
		t.Errorf("outage, %s load: got %d refused attempts in the second half, want at most %d", load.name, run.Late, most)
	}
}

// TestGateInAnOutage asserts that the Gate asks less than reflectors without
// one, and is there sooner than kubelet's. The margins are wide: 5 s and 55 s.
func TestGateInAnOutage(t *testing.T) {
	const nodes, references = 10, 50
	server := light.server(nodes * references)
	gate := play(t, Scenario{nodes, references, server, Refwatch("gate", 0), Outage})
	alone := play(t, Scenario{nodes, references, server, Ungated(), Outage})
	kubelet := play(t, Scenario{nodes, references, server, Kubelet("kubelet", 0), Outage})
	if got, want := gate.Refused, alone.Refused/5; got > want {
		t.Errorf("got %d refused attempts with a gate, want at most a fifth of %d", got, alone.Refused)
	}
	if got, want := gate.Fresh, kubelet.Fresh/2; got > want {
		t.Errorf("all fresh after %s with a gate, want at most half of %s", got, kubelet.Fresh)
	}
	if gate.Fresh > 15*time.Second {
		t.Errorf("all fresh %s after the servers were back, want at most 15s, virtual time", gate.Fresh)
	}
}

// TestOpens tells what the Gate's bound does: SIMULATION_OUT has a table by it.
func TestOpens(t *testing.T) {
	nodes, references, runs := size(t)
	server := heavy.server(nodes * references)
	for _, event := range []Event{Rolling, Outage} {
		var results []result
		for _, opens := range []int{1, 4, 8, 16, 32, 64} {
			r := result{client: fmt.Sprintf("gate, Opens %d", opens)}
			for range runs {
				r.runs = append(r.runs, play(t, Scenario{nodes, references, server, Refwatch(r.client, opens), event}))
			}
			if got := middle(r.runs, func(r row) int { return r.PeakNode }); got > mostAtOnce(opens) {
				t.Errorf("got %d opens of a node at once, want at most %d", got, mostAtOnce(opens))
			}
			results = append(results, r)
		}
		write(t, table(fmt.Sprintf("%s, heavy load, by Opens: %d nodes × %d references", event, nodes, references), results))
	}
}
