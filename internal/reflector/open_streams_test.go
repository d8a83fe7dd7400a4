// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// A silent stream is compared with a list between two minutes and two and a half after
// its last event or bookmark, again and again.
func TestSilentStreamIsVerified(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		source := func() *fakeSource {
			source := withoutWatchList(opens(state(secret("5"), "7")...))
			source.onList = lists(brings("7", secret("5")), brings("8", secret("5")))
			return source
		}
		tests := map[string]listwatch.Source{"list and watch": listing(source()), "WatchList": source()}
		eachCase(t, tests, func(t *testing.T, source listwatch.Source) {
			r := start(t, source, reflector.Options{})
			for before := len(r.source.asked()); before < 5; before++ {
				silent := r.Status().LastContact
				after(time.Until(silent.Add(2*time.Minute - time.Second)))
				if got := r.source.asked()[before:]; len(got) != 0 {
					t.Errorf("before two minutes: got %q, want no request", got)
				}
				after(31 * time.Second)
				if got := r.source.asked()[before:]; !slices.Equal(got, []string{"list "}) {
					t.Fatalf("after two and a half minutes: got %q, want one consistent list", got)
				}
				verified := r.source.seen()[before].at
				if verified.Sub(silent) < 2*time.Minute {
					t.Errorf("verified after %v, want 2 min at least", verified.Sub(silent))
				}
				if got := r.Status(); !got.LastContact.Equal(verified) || got.Failures != 0 {
					t.Errorf("status: got %+v, want contact at %v, and the stream kept", got, verified)
				}
			}
		})
	})
}

// A list shows in two ways that a stream has missed something: by its version, and by its objects. Another stream has
// read it two and a half minutes after the last contact.
func TestSilentStreamThatMissedSomething(t *testing.T) {
	recreated := secret("5")
	recreated.UID = "two"
	type test struct {
		first, second listAnswer
		epoch         uint64
		want          string // version of the object in the end; "" for no object
		uid           string
	}
	tests := map[string]test{
		"rolled back":                {brings("100", secret("90")), brings("60", secret("40")), 1, "40", "one"},
		"lost a change":              {brings("100", secret("90")), brings("105", secret("104")), 0, "104", "one"},
		"lost a creation":            {brings("100"), brings("105", secret("104")), 0, "104", "one"},
		"lost a deletion":            {brings("100", secret("90")), brings("105"), 0, "", ""},
		"rolled back, and recreated": {brings("100", secret("5")), brings("105", recreated), 1, "5", "two"},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			r := start(t, listing(&fakeSource{onList: lists(test.first, test.second), onWatch: streams(opens())}), reflector.Options{})
			after(2*time.Minute - time.Second)
			if got := r.Status(); got.LastError != nil {
				t.Errorf("status before the end: got %+v, want the stream kept", got)
			}
			after(31 * time.Second)
			status := r.Status()
			if failure.Of(status.LastError) != failure.Silent || status.Failures != 0 {
				t.Errorf("status: got %+v, want a Silent failure that is over", status)
			}
			if got, want := r.source.asked(), []string{"list ", "watch 100", "list ", "list "}; !slices.Equal(got[:4], want) || len(got) != 5 {
				t.Errorf("requests: got %q, want a verification, a consistent read, and a watch after it", got)
			}
			got := r.slot.Load()
			if got.Epoch != test.epoch {
				t.Errorf("state: got %+v, want epoch %d", got, test.epoch)
			}
			if got.Exists != (test.want != "") || got.Exists && (got.ResourceVersion != test.want || string(got.Object.UID) != test.uid) {
				t.Errorf("state: got %+v, want version %q of UID %q", got, test.want, test.uid)
			}
		})
	})
}

// A stream that delivers events or bookmarks is not verified.
func TestStreamWithEventsIsNotVerified(t *testing.T) {
	tests := map[string]func(int) watch.Event{
		"bookmarks": func(int) watch.Event { return bookmark("8", false) },
		"events":    func(i int) watch.Event { return event(watch.Modified, secret([]string{"8", "9"}[i%2])) },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, next func(int) watch.Event) {
			stream := newStream(state(secret("5"), "7")...)
			r := start(t, watching(stream.answer), reflector.Options{})
			for i := range 50 {
				after(time.Minute)
				stream.events <- next(i)
			}
			if got := len(r.source.seen()); got != 1 {
				t.Errorf("requests in 50 minutes: got %d, want 1", got)
			}
		})
	})
}

// A verification that fails is repeated once. The stream is kept meanwhile.
func TestVerificationThatFails(t *testing.T) {
	tests := map[string]listAnswer{
		"no connection": listFails(errors.New("reset")),
		"forbidden":     listFails(forbidden()),
		"throttled":     listFails(throttled(5)),
		"malformed":     func() (runtime.Object, error) { return secret("5"), nil },
		"no version":    brings("", secret("5")),
		"panic":         func() (runtime.Object, error) { panic(canary) },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, bad listAnswer) {
			gate := reflector.NewGate(reflector.GateOptions{})
			good := brings("7", secret("5"))
			r := start(t, listing(&fakeSource{onList: lists(good, bad, good), onWatch: streams(opens())}), reflector.Options{Gate: gate})
			began := time.Now()
			after(149 * time.Second)
			if got := r.Status(); !got.LastContact.Equal(began) || got.Failures != 0 {
				t.Errorf("status while it fails: got %+v, want contact at %v, and no failure of the stream", got, began)
			}
			after(32 * time.Second)
			if got, want := r.source.asked(), []string{"list ", "watch 7", "list ", "list "}; !slices.Equal(got, want) {
				t.Errorf("requests: got %q, want %q", got, want)
			}
			if got := r.Status(); time.Since(got.LastContact) > time.Minute {
				t.Errorf("status after a verification: got %+v, want contact renewed", got)
			}
			if got := gate.Status(); got.Opening != 0 {
				t.Errorf("gate: got %+v, want it empty", got)
			}
		})
	})
}

// A silent stream whose verifications fail for good is replaced: a list that fails does not end the matter.
func TestSilentStreamWhereListsFail(t *testing.T) {
	tests := map[string]listAnswer{
		"forbidden": listFails(forbidden()),
		"throttled": listFails(throttled(5)),
		"500":       listFails(unreadable()),
		"malformed": func() (runtime.Object, error) { return secret("5"), nil },
		"hangs":     func() (runtime.Object, error) { time.Sleep(time.Minute); return nil, failure.ErrNoAnswer },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, bad listAnswer) {
			gate := reflector.NewGate(reflector.GateOptions{})
			n := large(true, 1000)
			var rigs []*rig
			for range n {
				source := &fakeSource{onList: lists(bad), onWatch: streams(opens(state(secret("5"), "7")...), opens(state(secret("8"), "9")...))}
				rigs = append(rigs, start(t, source, reflector.Options{Gate: gate, Resource: "secrets"}))
			}
			after(4*time.Minute + 30*time.Second)
			for i, r := range rigs {
				if got := r.slot.Load().ResourceVersion; got != "8" {
					t.Fatalf("stream %d, silent for 4 minutes and a half: got version %s, want 8 of another stream: %+v", i, got, r.Status())
				}
			}
		})
	})
}

// The same for one object whose lists fail, beside others that lists verify.
func TestSilentStreamWhereOwnListsFail(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"}
		opened := func() *fakeSource {
			return &fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(opens(state(secret("5"), "7")...), opens(state(secret("8"), "9")...))}
		}
		for range 5 {
			start(t, opened(), options)
		}
		source := opened()
		source.onList = lists(listFails(forbidden()))
		r := start(t, source, options)
		after(2*time.Minute + 50*time.Second)
		if got := r.slot.Load().ResourceVersion; got != "8" {
			t.Errorf("silent for 2 minutes and 50 s: got version %s, want 8 of another stream: %+v", got, r.Status())
		}
	})
}

// slowLists is a source whose lists, except the first, wait until goOn is closed or
// their context ends.
type slowLists struct {
	listOnly

	listed atomic.Bool
	begun  chan struct{}
	goOn   chan struct{}
}

func newSlowLists(source *fakeSource) *slowLists {
	return &slowLists{listOnly: listing(source), begun: make(chan struct{}, 10), goOn: make(chan struct{})}
}

func (s *slowLists) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if s.listed.Swap(true) {
		s.begun <- struct{}{}
		select {
		case <-s.goOn:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.fakeSource.List(ctx, options)
}

func TestStopDuringVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		slow := newSlowLists(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())})
		r := start(t, slow, reflector.Options{Gate: gate})
		<-slow.begun
		if got := gate.Status(); got.Opening != 1 {
			t.Errorf("gate: got %+v, want the verification admitted", got)
		}
		after(45 * time.Second)
		if got := len(slow.begun); got != 0 {
			t.Errorf("verifications beside the first: got %d, want none", got)
		}
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("stop took %v of virtual time, want none", took)
		}
		if got := statusNow(gate); got != (reflector.GateStatus{}) {
			t.Errorf("gate: got %+v, want it empty", got)
		}
		after(time.Hour)
		if got := len(slow.begun); got != 0 {
			t.Errorf("verifications after the stop: got %d, want none", got)
		}
	})
}

// lingeringLists are slowLists that return a second after their context has ended.
type lingeringLists struct {
	*slowLists

	ended atomic.Bool
}

func (l *lingeringLists) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := l.slowLists.List(ctx, options)
	if ctx.Err() != nil {
		time.Sleep(time.Second)
		l.ended.Store(true)
	}
	return list, err
}

func TestRunWaitsForAVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := &lingeringLists{slowLists: newSlowLists(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())})}
		r := start(t, source, reflector.Options{})
		<-source.begun
		r.stop()
		if !source.ended.Load() {
			t.Error("Run returned while a verification was under way")
		}
	})
}

// A verification that hangs is given up after a minute. The stream is kept.
func TestVerificationThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		slow := newSlowLists(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())})
		r := start(t, slow, reflector.Options{})
		<-slow.begun
		after(5 * time.Minute)
		if got := len(slow.begun); got < 2 || got > 5 {
			t.Errorf("verifications in five minutes more: got %d, want 2 to 5", got)
		}
		if got := r.Status(); slow.count("watch") != 1 || got.LastError != nil {
			t.Errorf("status: got %+v, want the stream kept", got)
		}
		close(slow.goOn)
		after(2 * time.Minute)
		if got := r.Status(); time.Since(got.LastContact) > 2*time.Minute {
			t.Errorf("status: got %+v, want contact once lists are answered", got)
		}
	})
}

// An event that arrives during a verification counts more than the list.
func TestEventDuringVerification(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream()
		slow := newSlowLists(&fakeSource{onList: lists(brings("7", secret("5"))), onWatch: streams(stream.answer)})
		r := start(t, slow, reflector.Options{})
		<-slow.begun
		stream.events <- event(watch.Modified, secret("9"))
		synctest.Wait()
		close(slow.goOn)
		after(2*time.Minute - time.Second) // until the next verification
		if got := r.Status(); slow.count("watch") != 1 || got.LastError != nil {
			t.Errorf("status: got %+v, want the stream kept", got)
		}
		if got := r.slot.Load(); got.ResourceVersion != "9" {
			t.Errorf("state: got %+v, want the object of the event", got)
		}
	})
}

// With a store that cannot compare objects, only a rollback is detected.
func TestVerificationWithAnotherStore(t *testing.T) {
	type test struct {
		second  listAnswer
		watches int
	}
	tests := map[string]test{
		"other content": {brings("105", secret("104")), 1},
		"rolled back":   {brings("60", secret("40")), 2},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			source := &fakeSource{onList: lists(brings("100", secret("90")), test.second), onWatch: streams(opens())}
			startWith(t, listing(source), newStore(), reflector.Options{})
			after(3 * time.Minute)
			if got := source.count("watch"); got != test.watches {
				t.Errorf("watches: got %d, want %d", got, test.watches)
			}
		})
	})
}

// A gate that all reflectors have left verifies the streams of later ones.
func TestVerificationAfterAPauseOfTheGate(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{})}
		source := func() listOnly { return listing(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())}) }
		start(t, source(), options).stop()
		after(time.Hour)
		second := start(t, source(), options)
		after(150 * time.Second)
		if got := second.source.asked(); !slices.Equal(got, []string{"list ", "watch 7", "list "}) {
			t.Errorf("requests: got %q, want a verification at the end", got)
		}
	})
}

// When one reflector proves a restore of etcd, the open streams of all others end, for a consistent read: one at a
// later version may be silent for ever, and one at an earlier version may hold content that was undone.
func TestRestoreEndsOpenStreams(t *testing.T) {
	tests := map[string]struct{ version, read string }{"above the proof": {"90", "100"}, "below the proof": {"30", "50"}}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test struct{ version, read string }) {
			gate := reflector.NewGate(reflector.GateOptions{})
			var counters reflector.Counters
			other := start(t, watching(opens(state(secret(test.version), test.read)...), opens(state(secret("40"), "60")...)), reflector.Options{Gate: gate, Counters: &counters})
			start(t, watching(breaks(io.EOF, state(secret("90"), "100")...), opens(state(secret("40"), "60")...)), reflector.Options{Gate: gate}).Refresh()
			after(10 * time.Second)
			if got := other.slot.Load(); got.ResourceVersion != "40" {
				t.Errorf("state: got %+v, want version 40", got)
			}
			if got := other.source.asked(); !slices.Equal(got, []string{"WatchList ", "WatchList "}) {
				t.Errorf("requests: got %q, want two consistent ones", got)
			}
			if got := counters.Stats(); got.OpenStreams != 1 || got.Opens[reflector.OpenRolledBack] != 1 {
				t.Errorf("counted: got %+v, want one open stream, and one opened because of the restore", got)
			}
		})
	})
}
