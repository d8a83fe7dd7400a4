// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// oneAtATime starts reflectors whose gate lets one open at a time, and whose answers take a
// while. So all need their state before the read of the second one begins.
func oneAtATime(t *testing.T, resource string, sources ...*fakeSource) (rigs []*rig) {
	t.Helper()
	gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
	for _, source := range sources {
		rigs = append(rigs, start(t, source, reflector.Options{Gate: gate, Resource: resource}))
	}
	return rigs
}

func afterAWhile(version string) watchAnswer {
	return slow(100*time.Millisecond, opens(state(secret("5"), version)...))
}

func checkAsked(t *testing.T, what string, r *rig, want ...string) {
	t.Helper()
	if got := r.source.asked(); !slices.Equal(got, want) {
		t.Errorf("requests of the %s reflector: got %q, want %q", what, got, want)
	}
}

// A consistent read serves the reflectors that needed one before it began, and no others.
func TestConsistentReadIsShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := oneAtATime(t, "secrets", watching(afterAWhile("7")), watching(afterAWhile("8")), watching(afterAWhile("9")))
		after(10 * time.Second)
		checkAsked(t, "first", r[0], "WatchList ")
		checkAsked(t, "second", r[1], "WatchList ") // it came when the first read had begun
		checkAsked(t, "third", r[2], "WatchList 8")
		late := start(t, watching(afterAWhile("9")), reflector.Options{Gate: r[0].gate, Resource: "secrets"})
		after(10 * time.Second)
		checkAsked(t, "late", late, "WatchList ")
	})
}

// Versions of two resources cannot be compared. Reflectors without a resource may read
// anything.
func TestConsistentReadIsOfOneResource(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := oneAtATime(t, "", watching(afterAWhile("7")), watching(afterAWhile("8")), watching(afterAWhile("9")))
		other := start(t, watching(afterAWhile("9")), reflector.Options{Gate: r[0].gate, Resource: "secrets"})
		after(10 * time.Second)
		for _, r := range append(r, other) {
			checkAsked(t, "next", r, "WatchList ")
		}
	})
}

// The version of a list may be one that no watch cache has reached.
func TestConsistentListIsNotShared(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
		join := func(source listwatch.Source, resource string) *rig {
			return start(t, source, reflector.Options{Gate: gate, Resource: resource})
		}
		join(watching(afterAWhile("6")), "configmaps") // the others wait for it
		lists := join(listing(withoutWatchList(afterAWhile("7"))), "secrets")
		second := join(watching(afterAWhile("8")), "secrets")
		after(10 * time.Second)
		checkAsked(t, "list-only", lists, "list ", "watch 7")
		checkAsked(t, "second", second, "WatchList ")
	})
}

// A server that does not have the version of the shared read lags, or was rolled back: the
// reflector makes a consistent read of its own, at once, and no other asks for that version.
func TestSharedReadThatAServerDoesNotHave(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		lags := watching(fails(tooLarge()), afterAWhile("10"))
		r := oneAtATime(t, "secrets", watching(afterAWhile("7")), watching(afterAWhile("8")), lags, watching(afterAWhile("11")))
		after(10 * time.Second)
		checkAsked(t, "third", r[2], "WatchList 8", "WatchList ")
		if got := r[3].source.asked(); len(got) != 1 || got[0] == "WatchList 8" {
			t.Errorf("requests of the fourth reflector: got %q, want one at another version", got)
		}
		if got := r[2].slot.Load().ResourceVersion; got != "5" {
			t.Errorf("state of the third reflector: got version %q, want 5", got)
		}
	})
}

// A server that answers with an older state than that of the shared read is not believed.
func TestAnswerThatIsOlderThanTheSharedRead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		old := watching(opens(state(secret("5"), "6")...), afterAWhile("9"))
		r := oneAtATime(t, "secrets", watching(afterAWhile("7")), watching(afterAWhile("8")), old)
		after(250 * time.Millisecond)
		if state := r[2].slot.Load(); state.Synced {
			t.Errorf("after a read at version 6: got the state %v, want none", state)
		}
		after(10 * time.Second)
		checkAsked(t, "third", r[2], "WatchList 8", "WatchList ")
	})
}

// After a rollback that any reflector has proved, no reflector asks for the version of a read
// from before it.
func TestSharedReadFromBeforeARollback(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		join := func(source listwatch.Source) *rig {
			return start(t, source, reflector.Options{Gate: gate, Resource: "secrets"})
		}
		proves := join(listing(&fakeSource{
			onList:  lists(brings("20", secret("5")), brings("6", secret("5"))),
			onWatch: streams(slow(time.Second, breaks(io.EOF)), opens()),
		}))
		proves.ReadFor(1)
		busy := apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, http.MethodGet, resource, "", "busy", 10, true)
		waits := join(watching(fails(busy), opens(state(secret("5"), "9")...)))
		// It begins after the one that waits needed its state. After the rollback it is slow.
		join(watching(opens(state(secret("5"), "8")...), slow(time.Hour, opens())))
		after(5 * time.Second)
		checkAsked(t, "list-only", proves, "list ", "watch 20", "list ", "watch 6")
		after(10 * time.Second)
		checkAsked(t, "waiting", waits, "WatchList ", "WatchList ")
	})
}

// A reflector whose stream has brought a later version than that of the shared read does
// not go back to it.
func TestSharedReadThatIsOlderThanTheStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		stream := newStream(append(state(secret("5"), "7"), bookmark("20", false))...)
		open := func() (listwatch.Stream, error) { return stream, nil }
		ahead := start(t, watching(open, opens(state(secret("5"), "21")...)), reflector.Options{Gate: gate, Resource: "secrets"})
		ahead.ReadFor(1)
		start(t, watching(opens(state(secret("5"), "9")...)), reflector.Options{Gate: gate, Resource: "secrets"})
		stream.finish(io.EOF)
		after(time.Minute)
		checkAsked(t, "first", ahead, "WatchList ", "WatchList 20")
		if got := ahead.Status(); got.ReadFor != 1 || got.Malformed != 0 {
			t.Errorf("status: got %+v, want the read for 1", got)
		}
	})
}

// A reflector asks for the version that it has seen, unless a newer state is needed.
func TestNeededReadIsConsistent(t *testing.T) {
	needs := map[string]struct {
		need func(*rig)
		want string
	}{
		"nothing":      {func(*rig) {}, "WatchList 7"},
		"ReadFor":      {func(r *rig) { r.ReadFor(1) }, "WatchList "},
		"ReadFor zero": {func(r *rig) { r.ReadFor(0) }, "WatchList 7"},
		"Refresh":      {func(r *rig) { r.Refresh() }, "WatchList "},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, needs, func(t *testing.T, test struct {
			need func(*rig)
			want string
		}) {
			stream := newStream(state(secret("5"), "7")...)
			open := func() (listwatch.Stream, error) { return stream, nil }
			r := start(t, watching(open, opens(state(secret("5"), "9")...)), reflector.Options{Resource: "secrets"})
			test.need(r)
			stream.finish(io.EOF)
			after(time.Minute)
			checkAsked(t, "only", r, "WatchList ", test.want)
		})
	})
}
