// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// withoutWatchList is a source of a server that answers a WatchList in a way,
// and does lists and plain watches.
func withoutWatchList(watchList func() (listwatch.Stream, error)) *fakeSource {
	return &fakeSource{
		onList: func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
		onWatch: func(options metav1.ListOptions) (listwatch.Stream, error) {
			if options.SendInitialEvents != nil {
				return watchList()
			}
			return newStream(), nil
		},
	}
}

func refusesWatchList() (listwatch.Stream, error) {
	return nil, apierrors.NewBadRequest("unknown option")
}

// asked is how many WatchLists a source was asked for.
func asked(source *fakeSource) int {
	count := 0
	for _, request := range source.seen() {
		if request.options.SendInitialEvents != nil {
			count++
		}
	}
	return count
}

// One reflector learns that the server refuses WatchList; all others of the same
// resource and gate know it, for an hour.
func TestRefusedWatchListIsKnownToAll(t *testing.T) {
	tests := map[string]struct {
		resource string
		sameGate bool
		wait     time.Duration
		want     int // WatchLists that the second reflector asks for
	}{
		"same resource":         {"secrets", true, 0, 0},
		"just within the hour":  {"secrets", true, 59 * time.Minute, 0},
		"after an hour":         {"secrets", true, 61 * time.Minute, 1},
		"another resource":      {"configmaps", true, 0, 1},
		"another server's gate": {"secrets", false, 0, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := reflector.NewGate(reflector.GateOptions{})
				first := start(t, withoutWatchList(refusesWatchList), reflector.Options{Gate: gate, Resource: "secrets"})
				if !first.Status().Synced || asked(first.source) != 1 {
					t.Fatalf("the first: got %+v after %d WatchLists, want synced after one", first.Status(), asked(first.source))
				}
				first.stop() // its verifications would go on
				after(test.wait)
				if !test.sameGate {
					gate = reflector.NewGate(reflector.GateOptions{})
				}
				second := start(t, withoutWatchList(refusesWatchList), reflector.Options{Gate: gate, Resource: test.resource})
				if got := asked(second.source); got != test.want {
					t.Errorf("WatchLists of the second: got %d, want %d", got, test.want)
				}
				if got := second.Status(); !got.Synced || got.Failures != 0 {
					t.Errorf("the second: got %+v, want it synced", got)
				}
			})
		})
	}
}

// A server that is upgraded is found out within an hour, and used as it is then.
func TestWatchListIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		start(t, withoutWatchList(refusesWatchList), reflector.Options{Gate: gate}).stop()
		after(61 * time.Minute)
		for range 2 {
			r := start(t, withoutWatchList(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate})
			if got := asked(r.source); got != 1 || len(r.source.seen()) != 1 || !r.Status().Synced {
				t.Errorf("after the upgrade: got %d WatchLists in %d requests, want it to be all", got, len(r.source.seen()))
			}
		}
	})
}

// Initial events that do not end tell of the server only if no WatchList ever
// worked there; the reflector itself does without in any case.
func TestMissingBookmarkIsKnownToAllWhereNoneEverCame(t *testing.T) {
	tests := map[string]struct {
		worked bool
		want   int // WatchLists that a later reflector asks for
	}{
		"none ever worked": {false, 0},
		"one has worked":   {true, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
				if test.worked {
					start(t, withoutWatchList(opens(state(secret("5"), "7")...)), options)
				}
				hanging := start(t, withoutWatchList(opens()), options)
				after(20 * time.Second)
				if got := hanging.Status(); !got.Synced || asked(hanging.source) != 1 {
					t.Errorf("the one without a bookmark: got %+v after %d WatchLists, want it to use lists", got, asked(hanging.source))
				}
				later := start(t, withoutWatchList(opens(state(secret("5"), "7")...)), options)
				if got := asked(later.source); got != test.want || !later.Status().Synced {
					t.Errorf("WatchLists of a later one: got %d, want %d", got, test.want)
				}
			})
		})
	}
}

// What was believed because a bookmark was missing is forgotten, too.
func TestMissingBookmarkIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		first := start(t, withoutWatchList(opens()), options)
		after(20 * time.Second)
		first.stop()
		after(61 * time.Minute)
		second := start(t, withoutWatchList(opens(state(secret("5"), "7")...)), options)
		if got := asked(second.source); got != 1 {
			t.Errorf("WatchLists after an hour: got %d, want 1", got)
		}
	})
}
