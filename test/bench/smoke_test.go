// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
)

// figures are those of a run with the size 20, by who must have them.
var figures = map[string]func(contender.Kind) bool{
	"memory-bytes-per-object-20": everybody, "memory-in-use-bytes-per-object-20": everybody, "goroutines-per-object-20": everybody, "sync-seconds-20": everybody,
	"failed-gets-20": everybody, "register-seconds-20": everybody, "server-bytes-per-object-20": everybody,
	"server-resident-megabytes-20": everybody, "server-cpu-ms-per-object-20": everybody, "streams-left-20": everybody,
	"heap-after-unregister-bytes-20": everybody, "heap-1s-after-unregister-bytes-20": everybody,
	"first-get-p50-ms": everybody, "first-get-p99-ms": everybody,
	"get-ns": everybody, "get-bytes": everybody, "get-allocs": everybody,
	"get-all-cores-ns": everybody, "get-all-cores-bytes": everybody, "get-all-cores-allocs": everybody,
	"register-unregister-ns": managers, "register-unregister-bytes": managers, "register-unregister-allocs": managers,
	"register-unregister-idle-store-ns": managers, "register-unregister-idle-store-bytes": managers,
	"register-unregister-idle-store-allocs": managers,
	"update-to-get-p50-ms":                  everybody, "update-to-get-p99-ms": everybody,
	"update-response-to-get-p50-ms": everybody, "update-response-to-get-p99-ms": everybody,
	"update-to-change-p50-ms": followed, "update-to-change-p99-ms": followed,
	"update-response-to-change-p50-ms": followed, "update-response-to-change-p99-ms": followed,
	"cpu-idle-ms-per-minute": everybody, "cpu-updates-ms-per-1000": everybody,
	"outage-2s-first-stream-seconds": survivors, "outage-2s-all-streams-seconds": survivors,
	"outage-2s-requests-per-second-down": survivors, "outage-2s-requests-per-second-peak": survivors,
	"outage-2s-dials-per-second-down": survivors, "outage-2s-dials-per-second-peak": survivors,
	"outage-2s-cpu-seconds":          survivors,
	"outage-60s-all-streams-seconds": survivors,
}

func everybody(contender.Kind) bool     { return true }
func followed(kind contender.Kind) bool { return kind.Follows }
func managers(kind contender.Kind) bool {
	return kind.Name == results.Refwatch || kind.Name == results.Kubelet
}
func survivors(kind contender.Kind) bool {
	return kind.StreamPerObject && kind.Name != results.Informer
}

// TestSmoke runs everything with everybody, small. What is right is asserted by the run itself.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("boots two control planes, and takes a minute")
	}
	out := t.TempDir()
	before := goleak.IgnoreCurrent()
	o, err := parse([]string{
		"-rounds=1", "-outage-rounds=1", "-sizes=20", "-n=20", "-samples=5", "-calls=1000", "-idle=200ms", "-updating=500ms",
		"-out", out,
	}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o.longOutage = time.Second
	var lines bytes.Buffer
	if err := newBench(o, &lines, t.Output()).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	// client-go keeps connections to a server that is gone until it notices.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))

	r, err := results.Load(filepath.Join(out, resultsFile))
	if err != nil {
		t.Fatal(err)
	}
	checkFigures(t, r, lines.String())
	checkValues(t, r)
	for _, file := range []string{"memory.svg", "outage-2s.svg", "outage-60s.svg"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Errorf("plot: got %v, want %s", err, file)
		}
	}
}

func checkFigures(t *testing.T, r *results.Results, lines string) {
	t.Helper()
	for name, has := range figures {
		if !strings.Contains(lines, "\n"+name+" refwatch=") && !strings.HasPrefix(lines, name+" refwatch=") {
			t.Errorf("lines: got none of %s, want one", name)
		}
		if r.Figures[name] == nil {
			t.Errorf("figure %s: got none", name)
			continue
		}
		for _, kind := range contender.Kinds {
			rounds, want := len(r.Figures[name].Rounds[kind.Name]), 0
			if has(kind) {
				want = 1
			}
			if rounds != want {
				t.Errorf("rounds of %s of %s: got %d, want %d", kind.Name, name, rounds, want)
			}
		}
	}
}

// checkValues looks at what does not depend on the machine.
func checkValues(t *testing.T, r *results.Results) {
	t.Helper()
	for name, want := range map[string]float64{"failed-gets-20": 0, "streams-left-20": 0, "get-bytes": 0} {
		if got := r.Median(name, results.Refwatch); got != want {
			t.Errorf("%s of refwatch: got %v, want %v", name, got, want)
		}
	}
	for name, least := range map[string]float64{"goroutines-per-object-20": 2, "get-ns": 1, "update-to-get-p50-ms": 0.01} {
		for _, contender := range []string{results.Refwatch, results.Kubelet, results.Informer, results.Floor} {
			if got := r.Median(name, contender); got < least {
				t.Errorf("%s of %s: got %v, want at least %v", name, contender, got, least)
			}
		}
	}
	if r.Environment.Kubernetes == "" || r.Environment.Date == "" || r.Environment.CPUs == 0 {
		t.Errorf("environment: got %+v, want all of it", r.Environment)
	}
}
