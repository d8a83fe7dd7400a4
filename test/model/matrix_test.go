// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/reliability"
	"github.com/refwatch/refwatch/test/testmain"
)

var (
	scale  = flag.Int("model.scale", 10, "how many objects are referenced in a run of the matrix")
	runs   = flag.Int("model.runs", 1, "how often the matrix runs each fault by itself")
	pairs  = flag.Int("model.pairs", 0, "how often the matrix runs each pair of faults; with 0 it runs a sample of them once, with -1 none")
	only   = flag.String("model.faults", "", "names of faults, with commas between them; the matrix runs only these")
	budget = flag.Duration("model.budget", 0, "the time after which the matrix begins no further run; 0 is no limit")
)

// large is how many objects make a run take seconds. Then it logs how long.
const large = 100

// samplePairs is how many pairs a run without -model.pairs has.
const samplePairs = 20

// sampleVerbs is of how many faults of verbs a run without -model.runs injects one by itself. TestVerbs injects all.
const sampleVerbs = 5

// cell is a run of the matrix.
type cell struct {
	faults []model.Fault
	seed   int
}

func (c cell) name(separator string) string {
	var names []string
	for _, f := range c.faults {
		names = append(names, f.Name)
	}
	return strings.Join(names, separator)
}

// faultsNamed returns the faults of these names, with commas between them, and all if there are none.
func faultsNamed(names string) ([]model.Fault, error) {
	all := model.Catalog()
	if names == "" {
		return all, nil
	}
	var some []model.Fault
	known := append(model.Catalog(), model.Triples()...)
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(known, func(f model.Fault) bool { return f.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-model.faults=%s: there is no fault %q, but these: %s", names, name, cell{faults: all}.name(", "))
		}
		some = append(some, known[i])
	}
	return some, nil
}

// An unknown fault is an error that lists the others: a misspelt name must not pass.
func TestFaultsNamed(t *testing.T) {
	if all, err := faultsNamed(""); err != nil || len(all) != len(model.Catalog()) {
		t.Errorf("no names: got %d faults and %v, want all", len(all), err)
	}
	some, err := faultsNamed("rollback, black-hole")
	if got := (cell{faults: some}).name("+"); err != nil || got != "rollback+black-hole" {
		t.Errorf("two names: got %s and %v", got, err)
	}
	for _, names := range []string{"nosuch", "rollback,", "rollback,nosuch"} {
		if some, err := faultsNamed(names); err == nil || !strings.Contains(err.Error(), "rollback, rollback-to-the-same-versions, ") {
			t.Errorf("%q: got %d faults and %v, want an error that lists all", names, len(some), err)
		}
	}
}

// Each fault by itself, and pairs of faults, break no promise. Without -model.runs there is a sample of the faults of
// verbs.
func TestMatrix(t *testing.T) {
	testmain.Long(t)
	faults, err := faultsNamed(*only)
	switch {
	case err != nil:
		t.Fatal(err)
	case *runs < 1, *scale < 1, *pairs < -1:
		t.Fatalf("-model.runs=%d -model.scale=%d -model.pairs=%d: want at least 1, 1 and -1", *runs, *scale, *pairs)
	}
	began, random := time.Now(), rand.New(rand.NewPCG(baseSeed(t), 0))
	var singles, doubles []cell
	for i, f := range faults {
		if f.OfVerbs() && *runs == 1 && *only == "" && (uint64(i)+*seed)%sampleVerbs > 0 {
			continue
		}
		for range *runs {
			singles = append(singles, cell{[]model.Fault{f}, random.Int()})
		}
	}
	for i, a := range faults {
		for _, b := range faults[i:] {
			for range max(1, *pairs) {
				doubles = append(doubles, cell{[]model.Fault{a, b}, random.Int()})
			}
		}
	}
	random.Shuffle(len(doubles), func(i, j int) { doubles[i], doubles[j] = doubles[j], doubles[i] })
	if *pairs <= 0 {
		doubles = doubles[:min(len(doubles), samplePairs*(1+*pairs))]
	}
	var single, double counts
	t.Run("faults", func(t *testing.T) { single = runCells(t, reliability.FaultRuns, *scale, singles) })
	t.Run("pairs", func(t *testing.T) { double = runCells(t, reliability.PairRuns, *scale, doubles) })
	t.Logf("%d runs with one of %d faults, %d with two, %d references each: %d failed, in %v", single.runs, len(faults), double.runs,
		*scale, single.failed+double.failed, time.Since(began).Round(time.Second))
}

// counts are how many runs there were, and how many of them failed.
type counts struct{ runs, failed int64 }

// runCells runs cells on all cores, until the budget is spent, and records how many there were.
func runCells(t *testing.T, name string, objects int, cells []cell) counts {
	began := time.Now()
	var next, failed atomic.Int64
	onAllCores(t, func(t *testing.T) {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(cells) || t.Failed() || *budget > 0 && time.Since(began) > *budget {
				next.Add(-1)
				return
			}
			s := model.DrawMatrix(objects, cells[i].faults...).Example(cells[i].seed)
			began := time.Now()
			if result := s.Run(t, model.Options{}); result.Failure() != "" {
				failed.Add(1)
				report(t, fmt.Sprintf("%s, with %d objects", cells[i].name("+"), objects), s, result)
			}
			if objects > large {
				t.Logf("%s: %v", cells[i].name("+"), time.Since(began).Round(time.Millisecond))
			}
		}
	})
	if next.Load() == 0 {
		return counts{}
	}
	err := reliability.Record(reliability.Result{
		Part: "model", Name: fmt.Sprintf("%s, %d references", name, objects),
		Count: next.Load(), Violations: failed.Load(), Seconds: time.Since(began).Seconds(),
	})
	if err != nil {
		t.Error(err)
	}
	return counts{next.Load(), failed.Load()}
}
