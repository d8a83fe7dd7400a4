// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

func TestPausesGrowAndAreCapped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(fails(forbidden())), reflector.Options{})
		after(time.Hour)
		pauses := gaps(attempts(r.source.seen()))
		if first := pauses[0]; first < 100*time.Millisecond || first > 200*time.Millisecond {
			t.Errorf("first pause: got %v, want 100 to 200 ms", first)
		}
		for _, pause := range pauses[10:] {
			if pause < 7*time.Second || pause > 15*time.Second {
				t.Errorf("a later pause: got %v, want 7.5 to 15 s", pause)
			}
		}
		if spread := slices.Max(pauses[10:]) - slices.Min(pauses[10:]); spread < 3*time.Second {
			t.Errorf("later pauses: got them within %v of each other, want them jittered", spread)
		}
	})
}

// A server that closes every stream cleanly after the state must not make a reflector
// spin.
func TestCleanClosesDoNotSpin(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(breaks(io.EOF, state(secret("5"), "7")...)), reflector.Options{})
		after(10 * time.Minute)
		if got := len(r.source.seen()); got > 100 {
			t.Errorf("requests in ten minutes: got %d, want at most 100", got)
		}
		if got := r.Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status: got %+v, want no failure: the streams ended regularly", got)
		}
	})
}

func TestHealthyStreamResetsThePause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		long := newStream(state(secret("5"), "7")...)
		failing := fails(forbidden())
		r := start(t, watching(failing, failing, failing, failing, failing, failing, long.answer, failing), reflector.Options{})
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

// A stream that lives long and never delivers the state is not healthy.
func TestStreamWithoutStateDoesNotResetThePause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := watching(func() (listwatch.Stream, error) {
			stream := newStream()
			time.AfterFunc(11*time.Second, func() { stream.finish(io.EOF) })
			return stream, nil
		})
		source.onList = lists(listFails(forbidden()))
		start(t, source, reflector.Options{})
		after(10 * time.Minute)
		all := gaps(slices.DeleteFunc(source.seen(), func(r request) bool { return r.verb == "list" }))
		if last := all[len(all)-1]; last < 18*time.Second {
			t.Errorf("gap between streams of 11 s: got %v, want the pauses to have grown", last)
		}
	})
}

// Peer bug 7: kubelet's manager sleeps on in a long back-off while a caller asks and
// after the fault is gone.
func TestPeerBug07_ExpediteCutsThePauseShort(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		healed := false
		r := start(t, watching(func() (listwatch.Stream, error) {
			if !healed {
				return nil, forbidden()
			}
			return newStream(state(secret("5"), "7")...), nil
		}), reflector.Options{})
		after(5 * time.Minute)
		healed = true
		r.Expedite()
		after(1600 * time.Millisecond)
		if got := r.slot.Load(); !got.Synced {
			t.Errorf("1.6 s after Expedite: got %+v, want synced", got)
		}
	})
}

func TestRetryHonorsRetryAfter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, &fakeSource{onList: lists(listFails(throttled(20))), onWatch: streams(fails(throttled(20)))}, reflector.Options{})
		for range 100 {
			after(time.Second)
			r.Expedite()
		}
		for _, gap := range gaps(r.source.seen()) {
			if gap < 20*time.Second {
				t.Errorf("gap: got %v, want at least the 20 s that the server asked for", gap)
			}
		}
		status := r.Status()
		if got := failure.Of(status.LastError); got != failure.Throttled {
			t.Errorf("class: got %q, want Throttled", got)
		}
		if left := time.Until(status.RetryAfter); left <= 0 || left > 30*time.Second {
			t.Errorf("Status.RetryAfter: got in %v, want within the 20 s that the server asked for, and the jitter", left)
		}
	})
}

// A Retry-After of an hour is honored for a minute.
func TestRetryAfterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(throttled(3600)))
		c.add(1, "secrets")
		after(500 * time.Millisecond)
		c.add(1, "secrets")
		after(10 * time.Minute)
		for id := range 2 {
			for _, gap := range gaps(c.seenOf(id)) {
				if gap < time.Minute || gap > 65*time.Second { // the resource is throttled as long
					t.Errorf("gap: got %v, want a minute and at most 5 s more", gap)
				}
			}
		}
		if got := len(c.seen()); got < 5 {
			t.Errorf("requests in ten minutes: got %d, want one a minute", got)
		}
	})
}

func TestRefreshReadsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(state(secret("5"), "7")...), opens(state(secret("8"), "9")...)), reflector.Options{})
		r.Refresh()
		r.Refresh()
		after(time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "8" {
			t.Errorf("state: got %+v, want version 8", got)
		}
		if got, want := r.source.asked(), []string{"WatchList ", "WatchList "}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want one more consistent read", got)
		}
	})
}

// Refresh does not end a read that is under way.
func TestRefreshDuringARead(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := newStream()
		r := start(t, watching(slow.answer), reflector.Options{})
		r.Refresh()
		synctest.Wait()
		for _, e := range state(secret("5"), "7") {
			slow.events <- e
		}
		synctest.Wait()
		if got := len(r.source.seen()); got != 1 || !r.slot.Load().Synced {
			t.Errorf("got %d requests and state %+v, want the first read to finish", got, r.slot.Load())
		}
	})
}

// Refresh of a stream that has lived long makes no pause.
func TestRefreshOfALongStreamMakesNoPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{})
		for i := range 10 {
			after(time.Minute)
			r.Refresh()
			synctest.Wait()
			if got := len(r.source.seen()); got != i+2 {
				t.Fatalf("requests at the moment of refresh %d: got %d, want %d", i+1, got, i+2)
			}
			if got := r.source.seen()[i+1].options.ResourceVersion; got != "" {
				t.Errorf("version asked for: got %q, want a consistent read", got)
			}
		}
		if got := r.Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status: got %+v, want no failure", got)
		}
	})
}

func TestManyRefreshesAreNotManyRequests(t *testing.T) {
	paces := map[string]time.Duration{"at each sync": 0, "every 10 ms": 10 * time.Millisecond, "every 90 ms": 90 * time.Millisecond}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, paces, func(t *testing.T, pace time.Duration) {
			synced := make(chan struct{}, 1)
			r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{OnChange: func() {
				select {
				case synced <- struct{}{}:
				default:
				}
			}})
			for range 500 {
				<-synced
				after(pace)
				r.Refresh()
				synctest.Wait()
			}
			for _, gap := range gaps(r.source.seen()) {
				if gap < 100*time.Millisecond {
					t.Fatalf("gap between reads: got %v, want at least 100 ms", gap)
				}
			}
		})
	})
}

// Refresh during a pause begins a consistent read soon.
func TestRefreshDuringAPause(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		failing := fails(forbidden())
		r := start(t, watching(
			breaks(errors.New("reset"), state(secret("5"), "7")...),
			failing, failing, failing, failing, failing, failing, failing,
			opens(state(secret("5"), "9")...),
		), reflector.Options{})
		for r.Status().Failures < 7 {
			after(100 * time.Millisecond)
		}
		r.Refresh()
		after(1600 * time.Millisecond)
		all := r.source.seen()
		if last := all[len(all)-1]; last.options.ResourceVersion != "" {
			t.Errorf("last request: got %+v, want a consistent read by now", last)
		}
	})
}
