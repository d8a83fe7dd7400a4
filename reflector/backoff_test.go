// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// gaps are the pauses between the attempts that a source saw. A list at the time
// of a refused WatchList belongs to its attempt.
func gaps(requests []request) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(requests); i++ {
		if gap := requests[i].at.Sub(requests[i-1].at); gap > 0 || requests[i].verb == requests[i-1].verb {
			all = append(all, gap)
		}
	}
	return all
}

func TestPausesGrowAndAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(fails(forbidden()))}, reflector.Options{})
		after(time.Hour)
		all := gaps(r.source.seen())
		if first := all[0]; first < 100*time.Millisecond || first > 200*time.Millisecond {
			t.Errorf("first pause: got %v, want 100 to 200 ms", first)
		}
		for _, gap := range all[10:] {
			if gap < 7*time.Second || gap > 15*time.Second {
				t.Errorf("a later pause: got %v, want 7.5 to 15 s", gap)
			}
		}
		if spread := slices.Max(all[10:]) - slices.Min(all[10:]); spread < 3*time.Second {
			t.Errorf("later pauses: got them within %v of each other, want them jittered", spread)
		}
	})
}

// A peer that closes every stream cleanly and at once, after a complete read,
// must not make a reflector spin.
func TestCleanClosesDoNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(breaks(io.EOF, state(secret("5"), "7")...))}, reflector.Options{})
		after(10 * time.Minute)
		if got := len(r.source.seen()); got > 100 {
			t.Errorf("requests in ten minutes: got %d, want at most 100", got)
		}
		if got := r.Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status: got %+v, want no failure: the streams ended in the regular way", got)
		}
	})
}

func TestHealthyStreamResetsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := newStream(state(secret("5"), "7")...)
		failing := fails(forbidden())
		r := start(t, &fakeSource{onWatch: streams(failing, failing, failing, failing, failing, failing,
			func() (listwatch.Stream, error) { return long, nil },
			failing,
		)}, reflector.Options{})
		after(time.Minute)
		before := len(r.source.seen())
		long.finish(io.EOF)
		ended := time.Now()
		after(time.Second)
		if pause := r.source.seen()[before].at.Sub(ended); pause > 200*time.Millisecond {
			t.Errorf("pause after a long stream: got %v, want the first one again", pause)
		}
	})
}

// A stream that lives long and never tells the state is no healthy one.
func TestSilentStreamDoesNotResetThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{onList: func(metav1.ListOptions) (runtime.Object, error) { return nil, forbidden() }}
		source.onWatch = func(metav1.ListOptions) (listwatch.Stream, error) {
			stream := newStream()
			time.AfterFunc(11*time.Second, func() { stream.finish(io.EOF) })
			return stream, nil
		}
		start(t, source, reflector.Options{})
		after(10 * time.Minute)
		all := gaps(slices.DeleteFunc(source.seen(), func(r request) bool { return r.verb == "list" }))
		if last := all[len(all)-1]; last < 18*time.Second {
			t.Errorf("gap between streams of 11 s: got %v, want the pauses to have grown", last)
		}
	})
}

// Peer bug 7: kubelet's manager sleeps on in a long back-off although somebody
// asks, and although the fault is gone.
func TestPeerBug07_RetryCutsThePauseShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		healed := false
		source := &fakeSource{}
		source.onWatch = streams(func() (listwatch.Stream, error) {
			if !healed {
				return nil, forbidden()
			}
			return newStream(state(secret("5"), "7")...), nil
		})
		r := start(t, source, reflector.Options{})
		after(5 * time.Minute)
		healed = true
		r.Retry()
		after(1600 * time.Millisecond)
		if got := r.slot.Load(); !got.Synced {
			t.Errorf("1.6 s after Retry: got %+v, want synced", got)
		}
	})
}

func TestManyRetriesAreNotManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(fails(forbidden()))}, reflector.Options{})
		for range 1000 {
			after(10 * time.Millisecond)
			r.Retry()
		}
		for _, gap := range gaps(r.source.seen()) {
			if gap < 100*time.Millisecond {
				t.Fatalf("gap between attempts: got %v, want at least 100 ms", gap)
			}
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		throttled := apierrors.NewTooManyRequests("slow down", 20)
		r := start(t, &fakeSource{onWatch: streams(fails(throttled))}, reflector.Options{})
		for range 100 {
			after(time.Second)
			r.Retry()
		}
		for _, gap := range gaps(r.source.seen()) {
			if gap < 20*time.Second {
				t.Errorf("gap: got %v, want at least the 20 s that the server asked for", gap)
			}
		}
		if got := failure.Of(r.Status().LastError); got != failure.Throttled {
			t.Errorf("class: got %q, want Throttled", got)
		}
	})
}

func TestRefreshReadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(
			opens(state(secret("5"), "7")...),
			opens(state(secret("8"), "9")...),
		)}, reflector.Options{})
		r.Refresh()
		r.Refresh()
		after(time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "8" {
			t.Errorf("state: got %+v, want version 8", got)
		}
		requests := r.source.seen()
		if len(requests) != 2 || requests[1].options.ResourceVersion != "" {
			t.Errorf("requests: got %+v, want one more, a consistent read", requests)
		}
	})
}

// A read that is under way is not given up for another one.
func TestRefreshDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newStream()
		r := start(t, &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return slow, nil })}, reflector.Options{})
		r.Refresh()
		synctest.Wait()
		for _, e := range state(secret("5"), "7") {
			slow.events <- e
		}
		synctest.Wait()
		if got := len(r.source.seen()); got != 1 || !r.slot.Load().Synced {
			t.Errorf("got %d requests and state %+v, want the first read to be let finish", got, r.slot.Load())
		}
	})
}
