// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/test/canary"
	"github.com/refwatch/refwatch/test/reliability"
	"github.com/refwatch/refwatch/test/testmain"
)

// step is how many combinations there are for each that is run.
const step = 17

var (
	all  = flag.Bool("all", false, "run every client with every strategy and every fault")
	from = flag.Uint("from", rand.UintN(step), "without -all: run one combination in 17, from this one on; the default is random")
)

// No output holds object data: no log line at verbosity 10, no error, status, metric or
// debug page, and no store, manager or change that a program prints; with each kind of
// client and each strategy, while the server answers with parts of the object in each
// wrong way, before the first read and after it.
func TestNoObjectDataInOutputs(t *testing.T) {
	out := canary.CaptureLog(t)
	var texts, bytes int64
	var runs, chosen uint
	for _, client := range slices.Sorted(maps.Keys(starters)) {
		for _, how := range slices.Sorted(maps.Keys(strategies)) {
			for _, what := range slices.Sorted(maps.Keys(faults)) {
				if runs++; !*all && runs%step != *from%step || (testing.Short() || testmain.Race) && chosen == 10 {
					continue
				}
				chosen++
				t.Run(client+", "+how+", "+what, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var canaries canary.Canaries
						newRig(t, &canaries, out).runWithFault(starters[client], strategies[how], faults[what])
						searched, size := canaries.Searched()
						texts, bytes = texts+int64(searched), bytes+size
					})
				})
			}
		}
	}
	t.Logf("%d of %d runs with a fault, from %d on (-from); %d texts of %d bytes searched", chosen, runs, *from, texts, bytes)
	record(t, reliability.SecrecyRuns, int64(chosen))
	record(t, "outputs searched for object data", texts)
}

// SECURITY.md names the number of faults.
func TestSecurityNamesTheFaults(t *testing.T) {
	text, err := os.ReadFile("../../SECURITY.md")
	if want := fmt.Sprintf("in %d wrong ways", len(faults)-1); err != nil || !strings.Contains(string(text), want) {
		t.Errorf("SECURITY.md: got error %v, want %q in it", err, want)
	}
}

// runWithFault begins with the fault, heals it, and repeats it when the object is known.
func (r *rig) runWithFault(start func(*rig, strategy) *subject, strategy strategy, fault func(v string) http.HandlerFunc) {
	value := r.write(strategy.change)
	set := func(handler http.HandlerFunc) {
		r.fault.Store(handler)
		r.server.CloseStreams(nil)
	}
	set(fault(value))
	s := start(r, strategy)
	s.set(key)
	s.check("at first")
	set(nil)
	time.Sleep(time.Minute)
	s.wantGet("healed", strategy)
	set(fault(value))
	if strategy.change == nil { // an immutable object cannot be updated
		r.write(nil)
	}
	time.Sleep(30 * time.Second)
	s.check("with a fault")
	set(nil)
	time.Sleep(time.Minute)
	s.wantGet("healed again", strategy)
	s.set(types.NamespacedName{Namespace: namespace, Name: "absent"})
	s.check("another object")
	s.set()
	s.check("no reference")
	if err := s.stop(); err != nil {
		r.Errorf("Run: got %v, want nil", err)
	}
	s.check("stopped")
}

// wantGet checks that Get succeeds, unless no read can, and then all outputs.
func (s *subject) wantGet(when string, strategy strategy) {
	s.rig.Helper()
	ctx, cancel := context.WithTimeout(s.rig.Context(), time.Minute)
	defer cancel()
	if err := s.get(ctx); (err == nil) == strategy.unread {
		s.rig.Errorf("%s: Get: got %v, want an error: %v", when, err, strategy.unread)
	}
	s.check(when)
}
