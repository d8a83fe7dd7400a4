// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/history"
	"github.com/refwatch/refwatch/test/model"
	"github.com/refwatch/refwatch/test/reliability"
)

var (
	schedules = flag.Int("model.schedules", 60, "how many schedules the model test runs")
	seed      = flag.Uint64("model.seed", 1, "the seed of the schedules and of the matrix; 0 draws one, and logs it")
	period    = flag.Duration("model.period", 0, "for how long it runs schedules, instead of a number of them")
)

// enough is how many schedules decide every rule of the history.
const enough = 60

// Random schedules of actions and faults break no promise.
func TestModel(t *testing.T) {
	if *period <= 0 && *schedules < 1 {
		t.Fatalf("-model.schedules=%d: want at least 1 (MODEL=1000 or MODEL=10m)", *schedules)
	}
	began, drawn, base := time.Now(), model.Draw(), baseSeed(t)
	var begun, count, events, checked, texts atomic.Int64
	var mu sync.Mutex
	decided := map[string]int64{}
	var failure atomic.Pointer[failed]
	onAllCores(t, func(t *testing.T) {
		for failure.Load() == nil {
			i := begun.Add(1) - 1
			if *period > 0 && time.Since(began) >= *period || *period <= 0 && i >= int64(*schedules) {
				return
			}
			seed := seedOf(base, i)
			s := drawn.Example(seed)
			result := s.Run(t, model.Options{})
			count.Add(1)
			events.Add(result.Events)
			checked.Add(result.Checked)
			texts.Add(result.Texts)
			mu.Lock()
			for rule, n := range result.Decided {
				decided[rule] += n
			}
			mu.Unlock()
			if result.Failure() != "" {
				failure.CompareAndSwap(nil, &failed{seed, s, result})
			}
		}
	})
	violations := int64(0)
	if failure.Load() != nil {
		violations = 1
	}
	took := time.Since(began)
	t.Logf("%d schedules in %v", count.Load(), took.Round(time.Second))
	for _, r := range []reliability.Result{
		{Name: reliability.Schedules, Count: count.Load(), Violations: violations, Seconds: took.Seconds()},
		{Name: "events", Count: events.Load()},
		{Name: "states compared", Count: checked.Load()},
		{Name: "texts searched for object data", Count: texts.Load()},
	} {
		t.Logf("%s: %d", r.Name, r.Count)
		r.Part = "model"
		if err := reliability.Record(r); err != nil {
			t.Error(err)
		}
	}
	if f := failure.Load(); f != nil {
		report(t, fmt.Sprint("the schedule of seed ", f.seed), f.schedule, f.result)
		return
	}
	for _, rule := range history.Rules {
		if decided[rule] == 0 && count.Load() >= enough {
			t.Errorf("rule %s: no schedule has decided it, so the run proves nothing about it", rule)
		}
	}
}

// failed is a schedule that has failed.
type failed struct {
	seed     int
	schedule model.Schedule
	result   model.Result
}

// onAllCores runs f once for each core, and waits for all.
func onAllCores(t *testing.T, f func(*testing.T)) {
	t.Run("cores", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				f(t)
			})
		}
	})
}

// baseSeed returns the seed of a run.
func baseSeed(t *testing.T) uint64 {
	base := *seed
	if base == 0 {
		base = rand.Uint64()
	}
	t.Logf("-model.seed=%d", base)
	return base
}

// seedOf returns the seed of a schedule of the run.
func seedOf(base uint64, i int64) int { return int(rand.NewPCG(base, uint64(i)).Uint64()>>1) | 1 } // for rapid 0 is none
