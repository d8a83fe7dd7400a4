// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/reflector"
)

// largeSource is a large object, whose metadata can be read alone.
type largeSource struct {
	*verbSource

	metadata verbFault
}

func (s largeSource) IsLarge() bool { return true }

func (s largeSource) Peek(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.List(ctx, options)
}

func (s largeSource) Compare(ctx context.Context, _ metav1.ListOptions) (runtime.Object, bool, error) {
	if err := s.ask(ctx, s.metadata); err != nil {
		return nil, false, err
	}
	return list("5", secret("5")), false, nil
}

// crowdFaults are those of which each object of a crowd would learn for itself.
func crowdFaults(t *testing.T, f func(t *testing.T, fault verbFault)) {
	t.Helper()
	for _, fault := range verbFaults {
		if slices.Contains([]string{"429", "500", "reset", "hangs"}, fault.name) {
			t.Run(fault.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, fault) }) })
		}
	}
}

// wantCrowdFresh starts 300 objects. A minute later their faults begin, they change, and again makes each be read
// again. All must be fresh in 5 minutes.
func wantCrowdFresh(t *testing.T, start func(*verbSource, reflector.Options) *rig, again func(i int, r *rig)) {
	t.Helper()
	var began atomic.Bool
	var version atomic.Int64
	version.Store(5)
	options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
	var rigs []*rig
	for range 300 {
		rigs = append(rigs, start(&verbSource{began: &began, version: &version}, options))
	}
	time.Sleep(time.Minute)
	began.Store(true)
	version.Add(1)
	for i, r := range rigs {
		again(i, r)
	}
	cell := verbCell{fresh: 5 * time.Minute}
	cell.wantFresh(t, "the first", rigs, version.Load())
}

// The metadata of 300 large objects cannot be read, and WatchLists work. All streams break at once. What a few objects
// prove, the others know: they do not fail one after the other, as in an outage.
func TestMetadataFailsForManyObjects(t *testing.T) {
	blockStreams(t) // a rig that parks streams hides Compare
	crowdFaults(t, func(t *testing.T, fault verbFault) {
		var sources []*verbSource
		wantCrowdFresh(t, func(s *verbSource, options reflector.Options) *rig {
			sources = append(sources, s)
			return start(t, largeSource{s, fault}, options)
		}, func(i int, _ *rig) { sources[i].cut() })
	})
}

// The lists of 300 objects without a stream fail, and WatchLists work. All are read again.
func TestListsOfReadsFailForManyObjects(t *testing.T) {
	crowdFaults(t, func(t *testing.T, fault verbFault) {
		wantCrowdFresh(t, func(s *verbSource, options reflector.Options) *rig {
			s.list = fault
			return start(t, s, options, (*reflector.Reflector).Read)
		}, func(_ int, r *rig) { r.Read() })
	})
}

// One object fails for good in all verbs, beside others that are well. These go on with WatchLists.
func TestObjectThatFailsBesideOthers(t *testing.T) {
	crowdFaults(t, func(t *testing.T, fault verbFault) {
		var began atomic.Bool
		var version atomic.Int64
		version.Store(5)
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		var well []*fakeSource
		for range 100 {
			source := &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(opens(state(secret("5"), "7")...))}
			well = append(well, source)
			start(t, source, options)
		}
		began.Store(true)
		start(t, &verbSource{watchList: fault, list: fault, watch: fault, began: &began, version: &version}, options)
		time.Sleep(3 * time.Hour)
		watches := 0
		for _, source := range well {
			watches += source.count("watch")
		}
		if watches > 0 {
			t.Errorf("got %d watches after lists of objects that are well, want WatchLists", watches)
		}
	})
}
