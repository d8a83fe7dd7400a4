// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

func TestVersionAfterFailure(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	type test struct {
		failures []watchAnswer
		want     []string // requests after the first stream
	}
	tests := map[string]test{
		"connection":        {[]watchAnswer{fails(errors.New("reset"))}, []string{"WatchList 7", "WatchList 7"}},
		"expired":           {[]watchAnswer{fails(expired)}, []string{"WatchList 7", "WatchList "}},
		"expired in stream": {[]watchAnswer{opens(errorEvent(expired))}, []string{"WatchList 7", "WatchList "}},
		"too large once":    {[]watchAnswer{fails(tooLarge())}, []string{"WatchList 7", "WatchList "}},
		"too large twice":   {[]watchAnswer{fails(tooLarge()), fails(tooLarge())}, []string{"WatchList 7", "WatchList ", "list ", "WatchList "}},
		"too large, then reset": {
			[]watchAnswer{fails(tooLarge()), fails(errors.New("reset"))}, []string{"WatchList 7", "WatchList ", "list ", "WatchList "},
		},
		"error in stream": {[]watchAnswer{opens(errorEvent(apierrors.NewInternalError(errors.New("etcd"))))}, []string{"WatchList 7", "WatchList 7"}},
		"unknown event":   {[]watchAnswer{opens(event("NEWS", secret("8")))}, []string{"WatchList 7", "WatchList "}},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			all := append([]watchAnswer{breaks(io.EOF, state(secret("5"), "7")...)}, test.failures...)
			all = append(all, opens(state(secret("5"), "9")...))
			r := start(t, watching(all...), reflector.Options{})
			after(10 * time.Second)
			if got := r.source.asked()[1:]; !slices.Equal(got, test.want) {
				t.Errorf("requests: got %q, want %q", got, test.want)
			}
			if status := r.Status(); status.Failures != 0 || status.LastError == nil {
				t.Errorf("status: got %+v, want no failure any more, and the last error kept", status)
			}
		})
	})
}

// After an etcd restore, versions continue from an older one. Only a consistent read
// proves that.
func TestRollbackBeginsAnEpoch(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(
			breaks(io.EOF, state(secret("100"), "120")...),
			fails(tooLarge()), fails(tooLarge()),
			opens(append(state(secret("40"), "60"), event(watch.Modified, secret("61")))...),
		), reflector.Options{})
		if got := r.slot.Load(); got.ResourceVersion != "100" {
			t.Fatalf("before: got %+v, want version 100", got)
		}
		after(10 * time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "61" || got.Epoch != 1 {
			t.Errorf("after the rollback: got %+v, want version 61 in epoch 1", got)
		}
		if got := r.Status(); got.ResourceVersion != "61" {
			t.Errorf("status: got %+v, want version 61", got)
		}
	})
}

// An answer that the version is too large may mean a rollback, which concerns all
// reflectors. So the consistent read after it does not wait for the back-off.
func TestReadAfterTooLargeIsSoon(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answers := []watchAnswer{breaks(io.EOF, state(secret("100"), "120")...)}
		for range 12 {
			answers = append(answers, fails(forbidden()))
		}
		r := start(t, watching(append(answers, fails(tooLarge()), opens(state(secret("40"), "60")...))...), reflector.Options{})
		after(3 * time.Minute) // before the stream is silent
		requests := slices.DeleteFunc(r.source.seen(), func(r request) bool { return r.kind() == "list" })
		if got, want := len(requests), 15; got != want {
			t.Fatalf("WatchLists: got %d, want %d", got, want)
		}
		if all := gaps(requests); all[12] < 2*time.Second || all[13] > 1600*time.Millisecond {
			t.Errorf("pauses: got %v before the answer and %v after it, want the second one to be 1.6 s at most", all[12], all[13])
		}
	})
}

// A server that answers below the version asked for lags or is faulty. That is no
// rollback, and the answer is not stored.
func TestReadBelowTheVersionAskedForIsMalformed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(
			breaks(io.EOF, state(secret("100"), "120")...),
			opens(state(secret("40"), "60")...),
			opens(state(secret("100"), "130")...),
		), reflector.Options{})
		after(10 * time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "100" || got.Epoch != 0 {
			t.Errorf("state: got %+v, want version 100 in epoch 0", got)
		}
		if got := r.Status(); got.Malformed != 1 {
			t.Errorf("status: got %+v, want one malformed read", got)
		}
	})
}

// A read that proves a rollback proves it once, also if the store refuses the read.
// Other reflectors of the gate then resume as before.
func TestRollbackIsProvedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		foreign := secret("3")
		foreign.Name = "foreign"
		gate := reflector.NewGate(reflector.GateOptions{})
		start(t, &fakeSource{
			onList:  lists(brings("7", foreign)),
			onWatch: streams(breaks(errors.New("cut"), state(secret("50"), "50")...), fails(tooLarge()), opens(state(foreign, "7")...)),
		}, reflector.Options{Gate: gate})
		// The streams of the other one end each minute.
		other := start(t, watching(func() (listwatch.Stream, error) {
			stream := newStream(state(secret("6"), "7")...)
			time.AfterFunc(time.Minute, func() { stream.finish(errors.New("end")) })
			return stream, nil
		}), reflector.Options{Gate: gate})
		after(20 * time.Minute)
		requests, consistent := other.source.seen(), 0
		for _, request := range requests {
			if request.options.ResourceVersion == "" {
				consistent++
			}
		}
		if consistent != 2 || len(requests) < 15 {
			t.Errorf("got %d of %d reads of the other consistent, want its first two", consistent, len(requests))
		}
		other.stop()
		after(2 * time.Minute) // for the timers of its streams
	})
}

// After an etcd restore, all versions that reflectors have seen are from the future:
// kube-apiserver waits before it refuses them. All members soon have the state of the
// restored server, and do not delay members that are added meanwhile.
func TestRollbackReachesAll(t *testing.T) {
	type test struct {
		down  time.Duration // how long the server is away before
		lists bool          // the server refuses WatchList
	}
	const members, limit = 1000, 15 * time.Second
	run := func(t *testing.T, test test) {
		usual := taking(usually, healthy)
		if test.lists {
			usual = refusingWatchList(usual)
		}
		c := newCrowd(t, reflector.GateOptions{}, usual)
		all := append(c.add(members/2, "secrets"), c.add(members/2, "configmaps")...)
		after(time.Minute)
		if test.down > 0 {
			c.serveAll(failing(errDown))
			c.cutAll(nil)
			after(test.down)
			c.serveAll(usual)
		}
		began := time.Now()
		c.restore(1000)
		awaited, others := c.addEvery(500*time.Millisecond, 60, "secrets", "configmaps")
		after(limit)
		c.wantSynced(awaited, soonAwaited, "new, a caller waits")
		c.wantSynced(others, soon, "new, no caller waits")
		c.wantRead(all, began, limit, "synced before")
		outdated := 0
		for _, m := range c.members {
			if !m.isCurrent() {
				outdated++
			}
		}
		if outdated > 0 {
			t.Errorf("state after the rollback: got %d members without it, want none", outdated)
		}
		t.Logf("%d requests after it", len(c.seen())-members)
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, map[string]test{
			"at once":           {0, false},
			"after an outage":   {20 * time.Second, false},
			"without WatchList": {0, true},
		}, run)
	})
}

// A restore costs each member one read, and those a second one whose read was under way when the rollback was proved,
// however long the answers take.
func TestRollbackIsReadOnce(t *testing.T) {
	skipCrowd(t)
	synctest.Test(t, func(t *testing.T) {
		usual := func(call) answer {
			return answer{takes: 10*time.Millisecond + rand.N(400*time.Millisecond)}
		}
		c := newCrowd(t, reflector.GateOptions{}, usual)
		all := c.add(1000, "secrets")
		after(2 * time.Minute)
		began := time.Now()
		c.forget()
		c.restore(1000)
		after(2 * time.Minute)
		if got := len(c.seen()); got > 1200 {
			t.Errorf("got %d requests, want 1,200 at most", got)
		}
		c.wantRead(all, began, time.Minute, "all")
	})
}

// refusingWatchList refuses WatchList, as a server does whose feature gate is off.
func refusingWatchList(b behavior) behavior {
	return func(c call) answer {
		a := b(c)
		if c.watchList {
			a.err = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		return a
	}
}

// ReadFor makes the next read that begins a consistent one, and no later one.
func TestReadFor(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		first := newStream(state(secret("5"), "7")...)
		r := start(t, watching(
			first.answer,
			fails(errors.New("reset")),
			breaks(io.EOF, state(secret("5"), "8")...),
			opens(state(secret("5"), "9")...),
		), reflector.Options{})
		if got := r.Status().ReadFor; got != 0 {
			t.Errorf("at first: got %d, want 0", got)
		}
		r.ReadFor(3)
		after(time.Minute)
		if got := r.Status(); got.ReadFor != 0 || len(r.source.seen()) != 1 {
			t.Errorf("before the next read: got %+v, want the stream left alone", got)
		}
		first.finish(io.EOF)
		after(time.Minute)
		if got := r.Status().ReadFor; got != 3 {
			t.Errorf("after it: got %d, want 3", got)
		}
		if got, want := r.source.asked(), []string{"WatchList ", "WatchList ", "WatchList ", "WatchList 8"}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
	})
}

// A read that has begun does not cover a later ReadFor.
func TestReadForDuringARead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		first := newStream()
		r := start(t, watching(first.answer, opens(state(secret("5"), "9")...)), reflector.Options{})
		r.ReadFor(1)
		for _, event := range state(secret("5"), "7") {
			first.events <- event
		}
		after(time.Second)
		if got := r.Status(); !got.Synced || got.ReadFor != 0 {
			t.Errorf("got %+v, want it synced, but not for 1", got)
		}
		first.finish(io.EOF)
		after(time.Second)
		if got := r.Status().ReadFor; got != 1 {
			t.Errorf("after the next read: got %d, want 1", got)
		}
	})
}
