// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// callingSlot calls a function with the version of each Secret before it stores that.
type callingSlot struct {
	*storetest.Slot[*corev1.Secret]

	call func(version string) error
}

func (s callingSlot) Replace(items []any, version string) error {
	for _, item := range items {
		if err := s.call(item.(*corev1.Secret).ResourceVersion); err != nil {
			return err
		}
	}
	return s.Slot.Replace(items, version)
}

func (s callingSlot) Update(object any) error {
	if err := s.call(object.(*corev1.Secret).ResourceVersion); err != nil {
		return err
	}
	return s.Slot.Update(object)
}

// startCalling is start with a slot that calls a function.
func startCalling(t *testing.T, source listwatch.Source, options reflector.Options, call func(version string) error) *rig {
	t.Helper()
	slot := newSecretSlot()
	r := startWith(t, source, callingSlot{slot, call}, options)
	r.slot = slot
	synctest.Wait()
	return r
}

// blockingAt returns a function that blocks at one version until free is closed.
func blockingAt(version string, free <-chan struct{}) func(string) error {
	return func(got string) error {
		if got == version {
			<-free
		}
		return nil
	}
}

// A store that blocks in a read keeps no place of the Gate, and is no outage.
func TestStoreBlocks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{Opens: 1})
		free := make(chan struct{})
		blocked := startCalling(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate}, blockingAt("5", free))
		other := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate})
		if !other.Status().Synced {
			t.Error("another reflector of the gate has not synced")
		}
		time.Sleep(time.Hour)
		if got := blocked.Status(); !got.Hung || got.Failures > 0 || gate.Status().Cause != nil {
			t.Errorf("an hour later: got %+v and the outage %v, want that it hangs, and neither a failure nor an outage", got, gate.Status().Cause)
		}
		blocked.Stop()
		close(free)
		blocked.wait()
	})
}

// A state is as old as what the server has sent, however long the store takes. What has waited behind an event of a
// parked stream is no newer than that.
func TestStateOfASlowStoreIsOld(t *testing.T) {
	update := append(state(secret("5"), "7"), event(watch.Modified, secret("8")))
	for name, test := range map[string]struct {
		events  []watch.Event
		waits   watch.Event // arrives while the store works with version 8
		version string
	}{
		"a read":                   {state(secret("8"), "8"), watch.Event{}, "8"},
		"an event behind a read":   {state(secret("8"), "8"), event(watch.Modified, secret("9")), "9"},
		"a bookmark behind a read": {state(secret("8"), "8"), bookmark("9", false), "9"},
		"an event":                 {update, watch.Event{}, "8"},
		"an event behind one":      {update, event(watch.Modified, secret("9")), "9"},
		"a deletion behind one":    {update, event(watch.Deleted, secret("9")), "9"},
		"a bookmark behind one":    {update, bookmark("9", false), "9"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				free, stream, began := make(chan struct{}), newStream(test.events...), time.Now()
				r := startCalling(t, watching(stream.answer), reflector.Options{}, blockingAt("8", free))
				after(100 * time.Millisecond)
				want := began
				if test.waits.Object != nil {
					stream.events <- test.waits
					if blockingStreams {
						want = began.Add(100*time.Millisecond + time.Minute) // when Next returns it
					}
				}
				after(time.Minute)
				if got := r.Status().LastContact; got.After(began) {
					t.Errorf("while the store blocks: got a last contact %v after the event, want none", got.Sub(began))
				}
				close(free)
				synctest.Wait()
				if got := r.Status(); got.ResourceVersion != test.version || !got.LastContact.Equal(want) {
					t.Errorf("got version %s, and a last contact after %v, want %s, and after %v",
						got.ResourceVersion, got.LastContact.Sub(began), test.version, want.Sub(began))
				}
				for version := 10; version < 40; version++ {
					after(10 * time.Millisecond)
					stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
					synctest.Wait()
					if got := r.Status(); got.ResourceVersion != strconv.Itoa(version) || !got.LastContact.Equal(time.Now()) {
						t.Fatalf("a later event: got version %s, and a last contact %v ago, want %d, and now",
							got.ResourceVersion, time.Since(got.LastContact), version)
					}
				}
			})
		})
	}
}

// A stream that always has an event, for updates come as fast as the store works, is not taken for a silent one.
func TestBusyStreamIsNotSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream(state(secret("5"), "7")...)
		r := startCalling(t, watching(stream.answer), reflector.Options{}, func(string) error { time.Sleep(time.Second); return nil })
		after(2 * time.Second)
		stream.events <- event(watch.Modified, secret("8")) // one is ahead
		for version := 9; version < 600; version++ {
			stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
			after(time.Second)
			if age := time.Since(r.Status().LastContact); age > 35*time.Second {
				t.Fatalf("version %d: got a last contact %v ago, want 35 s at most", version, age)
			}
		}
		if got := r.source.asked(); len(got) != 1 {
			t.Errorf("requests: got %q, want one", got)
		}
	})
}

// The last contact is the newest, also if the store works with an event when a verification of the stream ends.
func TestSlowStoreDuringAVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer, free := make(chan struct{}), make(chan struct{})
		stream := newStream(state(secret("5"), "7")...)
		source := &fakeSource{onWatch: streams(stream.answer), onList: func(metav1.ListOptions) (runtime.Object, error) {
			<-answer
			return list("7", secret("5")), nil
		}}
		r := startCalling(t, source, reflector.Options{}, blockingAt("8", free))
		after(2*time.Minute + 45*time.Second)
		stream.events <- event(watch.Modified, secret("8"))
		after(time.Second)
		close(answer)
		synctest.Wait()
		verified := r.Status().LastContact
		if took := time.Since(verified); took != 0 {
			t.Errorf("after the verification: got a last contact %v ago, want it now", took)
		}
		after(time.Second)
		close(free)
		synctest.Wait()
		if got := r.Status().LastContact; r.slot.Load().Object.ResourceVersion != "8" || !got.Equal(verified) {
			t.Errorf("with the event in the store: got a last contact at %v, want still %v", got, verified)
		}
	})
}

// A rollback that others prove while the store works with an answer ends the stream after it: it may be of before the
// rollback, and silent for ever.
func TestRollbackWhileTheStoreBlocks(t *testing.T) {
	events := func(versions ...string) []watch.Event {
		events := state(secret("5"), "7")
		for _, version := range versions {
			events = append(events, event(watch.Modified, secret(version)))
		}
		return events
	}
	for name, test := range map[string]struct {
		events []watch.Event
		blocks string // the version with which the store works meanwhile
	}{
		"a read":                {state(secret("90"), "100"), "90"},
		"an event":              {events("90"), "90"},
		"an event before later": {events("8", "90"), "8"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				if blockingStreams && test.blocks == "8" {
					t.Skip("what waits in a stream that is not parked counts as new")
				}
				gate := reflector.NewGate(reflector.GateOptions{})
				free := make(chan struct{})
				silent := startCalling(t, watching(opens(test.events...), opens(state(secret("40"), "60")...)),
					reflector.Options{Gate: gate}, blockingAt(test.blocks, free))
				other := watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...))
				start(t, other, reflector.Options{Gate: gate}).Refresh()
				after(10 * time.Second)
				close(free)
				after(10 * time.Second)
				if got := silent.slot.Load(); got.ResourceVersion != "40" {
					t.Errorf("state: got %+v, want version 40", got)
				}
				after(time.Minute)
				if got := silent.source.asked(); len(got) != 2 {
					t.Errorf("requests: got %q, want two", got)
				}
			})
		})
	}
}

// While stores work with the answers to consistent reads, others read at their versions.
func TestSlowStoresLeaveReadsShared(t *testing.T) {
	for _, took := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := reflector.NewGate(reflector.GateOptions{Opens: 16})
				answer := func() (listwatch.Stream, error) {
					time.Sleep(5 * time.Millisecond)
					return opens(state(secret("5"), "7")...)()
				}
				var sources []*fakeSource
				for range 1000 {
					sources = append(sources, watching(answer))
					store := callingSlot{newSecretSlot(), func(string) error { time.Sleep(took); return nil }}
					startWith(t, sources[len(sources)-1], store, reflector.Options{Gate: gate, Resource: "secrets"})
				}
				time.Sleep(5 * time.Minute)
				consistent := 0
				for _, source := range sources {
					if asked := source.asked(); len(asked) == 0 {
						t.Fatal("a reflector has sent no request")
					} else if asked[0] == "WatchList " {
						consistent++
					}
				}
				if consistent > 40 {
					t.Errorf("first requests of 1,000 reflectors: got %d consistent reads, want 40 at most", consistent)
				}
			})
		})
	}
}

// While the store works with an event, others arrive. A session that ends does not wait for them.
func TestSessionEndsBeforeEventsThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream(state(secret("5"), "7")...)
		r := startCalling(t, watching(stream.answer, opens(state(secret("500"), "500")...)), reflector.Options{}, func(version string) error {
			if version != "5" {
				time.Sleep(time.Second)
			}
			return nil
		})
		after(time.Second)
		for version := 10; version < 100; version++ {
			stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
		}
		after(500 * time.Millisecond)
		r.Refresh()
		began := time.Now()
		after(5 * time.Second)
		if got := r.slot.Load().ResourceVersion; got != "500" {
			t.Errorf("5 s after Refresh: got version %s, want 500", got)
		}
		r.stop()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the reflector has ended %v after Refresh, want 5 s", took)
		}
	})
}

// The failure of a store is the program's, whatever its error wraps. It fails the attempt and no other: the store keeps
// what it has, another attempt follows after a pause, and there is no outage. Only a marked error is
// shown.
func TestErrorsOfAStore(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"an error":                 {errors.New(canary), "the store failed with a *errors.errorString"},
		"an API status":            {apierrors.NewBadRequest(canary), "the store failed with a *errors.StatusError"},
		"a Retry-After":            {fmt.Errorf("%s: %w", canary, apierrors.NewTooManyRequests(canary, 3600)), "the store failed with a *fmt.wrapError"},
		"marked":                   {redact.Loggable(errors.New("full")), "the store failed: full"},
		"ErrStore":                 {fmt.Errorf("%s: %w", canary, redact.Loggable(fmt.Errorf("%w: full", listwatch.ErrStore))), "the store failed: full"},
		"ErrStore and malformed":   {redact.Loggable(fmt.Errorf("%w: %w", listwatch.ErrStore, cache.ErrMalformed)), ""},
		"ErrStore and Retry-After": {redact.Loggable(fmt.Errorf("%w: %w", listwatch.ErrStore, apierrors.NewTooManyRequests("no", 3600))), ""},
		"control characters":       {redact.Loggable(fmt.Errorf("%w: a\x1b[2J\nb", listwatch.ErrStore)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var calls atomic.Int32
				var bad atomic.Bool
				bad.Store(true)
				gate := reflector.NewGate(reflector.GateOptions{})
				stream := newStream(state(secret("5"), "7")...)
				r := startCalling(t, watching(stream.answer, opens(state(secret("8"), "9")...)), reflector.Options{Gate: gate}, func(version string) error {
					if calls.Add(1); bad.Load() && version == "8" {
						return test.err
					}
					return nil
				})
				stream.events <- event(watch.Modified, secret("8"))
				after(time.Minute)
				status := r.Status()
				if !errors.Is(status.LastError, listwatch.ErrStore) || test.want != "" && status.LastError.Error() != test.want {
					t.Fatalf("got the error %v, want ErrStore and %q", status.LastError, test.want)
				}
				if text := status.LastError.Error(); strings.ContainsAny(text, "\x1b\n") || strings.Contains(text, canary) {
					t.Errorf("got %q, want one line without object data", text)
				}
				if got := r.slot.Load().ResourceVersion; got != "5" || status.ResourceVersion != "7" {
					t.Errorf("got version %q and progress to %s, want the state before, and 7", got, status.ResourceVersion)
				}
				if got := calls.Load(); got < 5 || got > 60 {
					t.Errorf("got %d attempts in a minute, want 5 to 60", got)
				}
				if cause := gate.Status().Cause; cause != nil || status.Malformed > 0 || !status.RetryAfter.IsZero() {
					t.Errorf("got an outage with %v, and %d malformed answers, want none: %+v", cause, status.Malformed, status)
				}
				bad.Store(false)
				after(time.Minute)
				if got := r.Status(); got.Failures != 0 || r.slot.Load().ResourceVersion != "8" {
					t.Errorf("in the end: got %d failures in a row, and %+v, want none, and version 8", got.Failures, r.slot.Load())
				}
			})
		})
	}
}
