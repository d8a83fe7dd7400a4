// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
)

// TestMain makes this program a worker or a stub server when the tested driver or a worker starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == workerCommand || os.Args[1] == stubCommand) {
		if err := command(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		args              string
		rounds, scenarios int
		err               string
	}{
		"default":          {"", 5, len(scenarios), ""},
		"quick":            {"-quick", 1, 11, ""},
		"quick, then more": {"-quick -rounds=7 -scenarios=get,update", 7, 2, ""},
		"size":             {"-sizes=1000,many", 0, 0, `"many": invalid syntax`},
		"no compression":   {"-disable-compression", 5, len(scenarios), ""},
		"zero":             {"-rounds=0", 0, 0, "at least 1"},
		"contender":        {"-contenders=refwatch,other", 0, 0, `there is no "other"`},
		"scenario":         {"-scenarios=other", 0, 0, `there is no "other"`},
		"command":          {"measure", 0, 0, `no command "measure"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := parse(strings.Fields(test.args), io.Discard)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || o.rounds != test.rounds || len(o.scenarios) != test.scenarios {
				t.Errorf("got %d rounds, %d scenarios, %v; want %d and %d", o.rounds, len(o.scenarios), err, test.rounds, test.scenarios)
			}
		})
	}
}

// figures are those of a run with 20 Secrets, by the contenders that have them.
var figures = map[string]func(contender.Kind) bool{
	"memory-bytes-per-object-20 goroutines-per-object-20 sync-seconds-20 failed-gets-20 server-bytes-per-object-20": all,
	"server-cpu-ms-per-object-20 streams-left-20 heap-after-unregister-bytes-20 dials-20 cpu-us-per-update":         all,
	"control-plane-cpu-ms-per-object-20 sync-busy-control-plane-cpu-ms-per-object-20":                               all,
	"sync-busy-seconds-20 sync-busy-failed-gets-20 sync-busy-writes-per-second-20":                                  all,
	"first-get-p50-ms first-get-p99-ms get-ns get-bytes get-all-cores-ns get-all-cores-bytes":                       all,
	"cold-start-seconds-4 cold-start-get-seconds-4 cold-start-referenced-seconds-4 cold-start-failed-gets-4":        inColdStarts,
	"first-get-busy-p50-ms first-get-busy-p99-ms":                                                                   all,
	"update-to-get-p50-ms update-to-get-p99-ms update-response-to-get-p50-ms update-response-to-get-p99-ms":         all,
	"register-unregister-ns register-unregister-bytes":                                                              registrars,
	"outage-2s-all-streams-seconds outage-2s-requests-per-second-down outage-2s-requests-per-second-peak":           inOutages,
	"outage-2s-dials-per-second-down outage-2s-dials-per-second-peak outage-60s-all-streams-seconds":                inOutages,
	"command-seconds-4 command-failed-gets-4":                                                                       inCommands,
	"get-after-delete-p50-ms get-after-delete-p99-ms get-after-delete-stale-gets":                                   inDeletions,
	"far-1400ms-seconds-4 far-1400ms-failed-gets-4 far-1400ms-dials-4 far-in-turn-seconds-4":                        streamPerObject,
	"cut-seconds-100kB cut-bytes-100kB cut-client-cpu-seconds-100kB cut-control-plane-cpu-seconds-100kB":            streamPerObject,
	"cut-dials-100kB sync-seconds-100kB memory-bytes-per-object-100kB":                                              streamPerObject,
}

// stubFigures are those of a run on stub servers.
var stubFigures = map[string]func(contender.Kind) bool{
	"churn-dials-40 churn-connections-40 churn-refused-streams-40 churn-cpu-us-per-object-40":        onStub,
	"neighbour-quiet-p50-ms neighbour-busy-p99-ms neighbour-mib-per-second neighbour-cpu-ms-per-mib": onStub,
	"many-open-seconds-200 many-memory-bytes-per-object-200 many-goroutines-200 many-dials-200":      inMany,
	"growth-register-us-200 growth-json-us-200 growth-outage-us-200 growth-outage-seconds-200":       onlyRefwatch,
	"many-connections-200 many-update-seconds-200 many-close-seconds-200":                            inMany,
	"sync-latency-seconds-40 sync-latency-failed-gets-40 sync-latency-dials-40":                      streamPerObject,
}

// checkFigures checks that exactly the contenders that have a figure have one.
func checkFigures(t *testing.T, figures map[string]func(contender.Kind) bool, out, lines string) *results.Results {
	t.Helper()
	r, err := results.Load(filepath.Join(out, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	for names, has := range figures {
		for name := range strings.FieldsSeq(names) {
			if !strings.Contains("\n"+lines, "\n"+name+" refwatch=") {
				t.Errorf("got no line of %s, want one", name)
			}
			for _, kind := range contender.Kinds {
				if _, ok := r.Figures[name].Medians[kind.Name]; ok != has(kind) {
					t.Errorf("%s of %s: got a value: %t, want %t", name, kind.Name, ok, has(kind))
				}
			}
		}
	}
	return r
}

// TestSmokeOnStub measures every scenario of the stub server, small.
func TestSmokeOnStub(t *testing.T) {
	out := t.TempDir()
	o, err := parse([]string{"-rounds=1", "-sizes=40", "-period=300ms",
		"-scenarios=churn,neighbour,sync-latency,many,growth", "-out", out}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o.maxLatency, o.scenarios[3].sizes, o.scenarios[4].sizes = 20*time.Millisecond, []int{200}, []int{200}
	var lines bytes.Buffer
	if err := (&bench{options: o, stdout: &lines, stderr: t.Output()}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := checkFigures(t, stubFigures, out, lines.String())
	for name, want := range map[string]float64{
		"many-connections-200": 2, "many-dials-200": 2, "churn-dials-40": 1, "sync-latency-seconds-40": 0.02,
	} {
		if got := r.Median(name, contender.Refwatch); got < want {
			t.Errorf("%s: got %v, want at least %v", name, got, want)
		}
	}
}

// TestSmoke measures every scenario of the real control plane with every contender, small, but for bookmarks, which
// takes minutes, and for all but one size of objects and one way to the server. The run itself asserts that the
// contenders work.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three control planes")
	}
	out := t.TempDir()
	before := goleak.IgnoreCurrent()
	o, err := parse([]string{"-rounds=1", "-sizes=20", "-out", out}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o.maxOutage, o.maxLatency, o.samples, o.calls, o.period = time.Second, 20*time.Millisecond, 5, 1000, 300*time.Millisecond
	o.scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool {
		return s.stub || slices.Contains([]string{"bookmarks", "cut-4kB", "cut-1MiB", "far-100ms", "far-500ms", "far-4s"}, s.name)
	})
	for i := range o.scenarios {
		if o.scenarios[i].sizes != nil {
			o.scenarios[i].sizes = []int{4} // of cut-100kB, cold starts and servers far away
		}
	}
	var lines bytes.Buffer
	if err := (&bench{options: o, stdout: &lines, stderr: t.Output()}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// client-go keeps connections to a stopped server for some time.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))

	r := checkFigures(t, figures, out, lines.String())
	for name, want := range map[string]float64{"failed-gets-20": 0, "streams-left-20": 0, "get-bytes": 0} {
		if got := r.Median(name, contender.Refwatch); got != want {
			t.Errorf("%s of refwatch: got %v, want %v", name, got, want)
		}
	}
	for name, least := range map[string]float64{
		"dials-20": 1, "get-ns": 1, "update-to-get-p50-ms": 0.01, "sync-busy-writes-per-second-20": 1,
		"far-1400ms-seconds-4": 0.06, "far-in-turn-seconds-4": 0.12, // three round trips of 20 ms, and six
		"cut-seconds-100kB": 0.001, "cut-bytes-100kB": 1, "cut-dials-100kB": 1, "memory-bytes-per-object-100kB": 1,
	} {
		if got := r.Median(name, contender.Refwatch); got < least {
			t.Errorf("%s of refwatch: got %v, want at least %v", name, got, least)
		}
	}
	for _, file := range []string{"update.svg", "outage-2s.svg", "outage-60s.svg"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestRecovered(t *testing.T) {
	const want = 3
	sampleAt := func(milliseconds, open, received, cpu int64) cutSample {
		return cutSample{
			sample{at: time.UnixMilli(milliseconds), open: open, received: received}, time.Duration(cpu) * time.Millisecond,
		}
	}
	tests := map[string]struct {
		samples []cutSample
		at      int
	}{
		"at rest since all are open": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(100, 0, 0, 0), sampleAt(200, want, 9, 9), sampleAt(1200, want, 99, 99),
		}, 2},
		"at rest, but not for long": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(300, want, 9, 9), sampleAt(1200, want, 99, 99),
		}, -1},
		"the end of a stream was not noticed at first": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(100, want, 0, 0), sampleAt(500, want-1, 0, 0), sampleAt(1200, want, 0, 0),
		}, -1},
		"an object arrives after all are open": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(200, want, 0, 0), sampleAt(700, want, 1<<20, 9), sampleAt(1200, want, 1<<20, 9),
		}, -1},
		"an object is handled after all are open": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(200, want, 9, 0), sampleAt(700, want, 9, 400), sampleAt(1200, want, 9, 400),
		}, -1},
		"an object was handled": {[]cutSample{
			sampleAt(0, want, 0, 0), sampleAt(200, want, 9, 0), sampleAt(700, want, 9, 400), sampleAt(1700, want, 9, 400),
		}, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := recovered(test.samples, want); got != test.at {
				t.Errorf("got sample %d, want %d", got, test.at)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	at := func(milliseconds int64) time.Time { return time.UnixMilli(milliseconds) }
	// From 1 s to 3 s, with 10 requests at 2 s, and 50 each at 3.2 s, 3.9 s and 4.5 s.
	o := outage{want: 3, down: at(1000), ready: at(3000), samples: []sample{
		{at(900), 3, 3, 0, 0}, {at(1000), 3, 3, 0, 0}, {at(1100), 0, 3, 0, 0}, {at(2000), 0, 13, 0, 0}, {at(2900), 0, 13, 0, 0},
		{at(3200), 1, 63, 0, 0}, {at(3900), 2, 113, 0, 0}, {at(4500), 3, 163, 0, 0},
	}}
	if got := o.firstAnswer(); got != at(3000) {
		t.Errorf("ready: got %v, want the time of the answer, before which no stream was open", got)
	}
	delayed := outage{ready: at(4400), samples: o.samples}
	if got := delayed.firstAnswer(); got != at(3200) {
		t.Errorf("ready, if the answer was delayed: got %v, want the time of the first stream", got)
	}
	requests := func(s sample) int64 { return s.requests }
	if got := o.rate(requests); got != 5 {
		t.Errorf("requests per second during the outage: got %v, want 5", got)
	}
	if got := o.peak(requests); got != 100 {
		t.Errorf("most requests in a second after it: got %v, want 100", got)
	}
	r := o.recovery()
	if r.Seconds != 1.5 || r.Open[0] != 0 || r.Open[50] != 1 || r.Open[len(r.Open)-1] != 3 {
		t.Errorf("recovery: got %+v, want all 3 streams after 1.5 s, one of them at 0.25 s", r)
	}
}
