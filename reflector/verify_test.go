// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// lists serves one list after the other; the last one for ever after.
func lists(all ...func() (runtime.Object, error)) func(metav1.ListOptions) (runtime.Object, error) {
	next := 0
	return func(metav1.ListOptions) (runtime.Object, error) {
		read := all[min(next, len(all)-1)]
		next++
		return read()
	}
}

func brings(version string, items ...corev1.Secret) func() (runtime.Object, error) {
	return func() (runtime.Object, error) { return list(version, items...), nil }
}

func verbs(requests []request) []string {
	var all []string
	for _, request := range requests {
		all = append(all, request.verb+" "+request.options.ResourceVersion)
	}
	return all
}

// watches returns how many watches a source saw.
func watches(source *fakeSource) (count int) {
	for _, request := range source.seen() {
		if request.verb == "watch" {
			count++
		}
	}
	return count
}

// A stream that is silent is compared with a list between two minutes and two
// and a half after it last said something, again and again.
func TestSilentStreamIsVerified(t *testing.T) {
	tests := map[string]func(*fakeSource) listwatch.Source{
		"list and watch": func(f *fakeSource) listwatch.Source { return listOnly{f} },
		"WatchList":      func(f *fakeSource) listwatch.Source { return f },
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := withoutWatchList(opens(state(secret("5"), "7")...))
				fake.onList = lists(brings("7", *secret("5")), brings("8", *secret("5")))
				r := start(t, source(fake), reflector.Options{})
				before := len(fake.seen())
				for range 3 {
					silent := r.Status().LastContact
					after(time.Until(silent.Add(2*time.Minute - time.Second)))
					if got := verbs(fake.seen()[before:]); len(got) != 0 {
						t.Errorf("before two minutes: got %q, want nothing asked", got)
					}
					after(31 * time.Second)
					if got := verbs(fake.seen()[before:]); !slices.Equal(got, []string{"list "}) {
						t.Fatalf("after two and a half minutes: got %q, want one consistent list", got)
					}
					verified := fake.seen()[before].at
					if verified.Sub(silent) < 2*time.Minute {
						t.Errorf("verified after %v, want 2 min at least", verified.Sub(silent))
					}
					if got := r.Status(); !got.LastContact.Equal(verified) || got.Failures != 0 {
						t.Errorf("status: got %+v, want contact at %v, and the stream kept", got, verified)
					}
					before++
				}
			})
		})
	}
}

// The two ways in which a list tells that a stream has missed something.
func TestSilentStreamThatMissedSomething(t *testing.T) {
	recreated := secret("5")
	recreated.UID = "two"
	tests := map[string]struct {
		first, second func() (runtime.Object, error)
		epochs        uint64
		want          string // version held in the end; "" for no object
	}{
		"rolled back":     {brings("100", *secret("90")), brings("60", *secret("40")), 1, "40"},
		"lost a change":   {brings("100", *secret("90")), brings("105", *secret("104")), 0, "104"},
		"lost a creation": {brings("100"), brings("105", *secret("104")), 0, "104"},
		"lost a deletion": {brings("100", *secret("90")), brings("105"), 0, ""},
		"rolled back, and gone on": {
			brings("100", *secret("5")), brings("105", *recreated), 1, "5",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{onList: lists(test.first, test.second), onWatch: streams(opens())}
				r := start(t, listOnly{source}, reflector.Options{})
				after(151 * time.Second)
				status := r.Status()
				if failure.Of(status.LastError) != failure.Silent || status.Failures != 0 || r.slot.Load().Epoch != test.epochs {
					t.Errorf("status: got %+v, want well again after a Silent failure, and epoch %d", status, test.epochs)
				}
				version := verbs(source.seen())[1]
				if got, want := verbs(source.seen()), []string{"list ", "watch 100", "list ", "list "}; !slices.Equal(got[:4], want) || len(got) != 5 {
					t.Errorf("requests: got %q, want a verification, a consistent read, and a watch after %s", got, version)
				}
				if got := r.slot.Load(); got.Exists != (test.want != "") || got.Exists && got.ResourceVersion != test.want {
					t.Errorf("state: got %+v, want version %q", got, test.want)
				}
				if got := r.slot.Load(); name == "rolled back, and gone on" && got.Object.UID != "two" {
					t.Errorf("state: got UID %q, want that of the new object", got.Object.UID)
				}
			})
		})
	}
}

// Events and bookmarks are proof enough.
func TestStreamThatSpeaksIsNotVerified(t *testing.T) {
	tests := map[string]func(int) watch.Event{
		"bookmarks": func(int) watch.Event { return bookmark("8", false) },
		"events": func(i int) watch.Event {
			return event(watch.Modified, secret([]string{"8", "9"}[i%2]))
		},
	}
	for name, next := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := newStream(state(secret("5"), "7")...)
				r := start(t, &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return stream, nil })}, reflector.Options{})
				for i := range 300 {
					after(time.Minute)
					stream.events <- next(i)
				}
				if got := len(r.source.seen()); got != 1 {
					t.Errorf("requests in five hours: got %d, want the first alone", got)
				}
			})
		})
	}
}

// A verification that fails says nothing of the stream. It is tried again.
func TestVerificationThatFails(t *testing.T) {
	tests := map[string]func() (runtime.Object, error){
		"no connection": func() (runtime.Object, error) { return nil, errors.New("reset") },
		"forbidden":     func() (runtime.Object, error) { return nil, forbidden() },
		"throttled":     func() (runtime.Object, error) { return nil, throttled(5) },
		"malformed":     func() (runtime.Object, error) { return secret("5"), nil },
		"no version":    brings("", *secret("5")),
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{
					onList:  lists(brings("7", *secret("5")), bad, bad, brings("7", *secret("5"))),
					onWatch: streams(opens()),
				}
				r := start(t, listOnly{source}, reflector.Options{})
				began := time.Now()
				after(150 * time.Second)
				if got := r.Status(); !got.LastContact.Equal(began) || got.Failures != 0 {
					t.Errorf("status while it fails: got %+v, want contact %v, and no failure of the stream", got, began)
				}
				after(61 * time.Second)
				if got, want := verbs(source.seen()), []string{"list ", "watch 7", "list ", "list ", "list "}; !slices.Equal(got, want) {
					t.Errorf("requests: got %q, want %q", got, want)
				}
				if got := r.Status(); time.Since(got.LastContact) > time.Minute {
					t.Errorf("status once it went well: got %+v, want contact renewed", got)
				}
			})
		})
	}
}

// slowLists is a source whose lists, but for the first, wait until they are let
// go or their context ends.
type slowLists struct {
	*fakeSource

	first atomic.Bool
	begun chan struct{}
	letGo chan struct{}
}

func newSlowLists(source *fakeSource) *slowLists {
	return &slowLists{fakeSource: source, begun: make(chan struct{}, 10), letGo: make(chan struct{})}
}

func (s *slowLists) IsWatchListSemanticsUnSupported() bool { return true }

func (s *slowLists) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if s.first.Swap(true) {
		s.begun <- struct{}{}
		select {
		case <-s.letGo:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return s.fakeSource.List(ctx, options)
}

func TestStopDuringVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		slow := newSlowLists(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())})
		r := start(t, slow, reflector.Options{Gate: gate})
		<-slow.begun
		if got := gate.Status(); got.Opening != 1 {
			t.Errorf("gate: got %+v, want the verification to have its turn", got)
		}
		after(45 * time.Second) // there is no second one meanwhile
		if got := len(slow.begun); got != 0 {
			t.Errorf("verifications beside the first: got %d, want none", got)
		}
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("stop took %v of virtual time, want none", took)
		}
		if got := gate.Status(); got != (reflector.GateStatus{}) {
			t.Errorf("gate: got %+v, want it as before", got)
		}
		after(time.Hour)
		if got := len(slow.begun); got != 0 {
			t.Errorf("verifications after the stop: got %d, want none", got)
		}
	})
}

// A verification that hangs is given up after a minute, and the stream kept.
func TestVerificationThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowLists(&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())})
		r := start(t, slow, reflector.Options{})
		<-slow.begun
		after(5 * time.Minute)
		if got := len(slow.begun); got < 2 || got > 5 {
			t.Errorf("verifications in five minutes more: got %d, want 2 to 5", got)
		}
		if got := r.Status(); watches(slow.fakeSource) != 1 || got.LastError != nil {
			t.Errorf("status: got %+v, want the stream kept", got)
		}
		close(slow.letGo)
		after(2 * time.Minute)
		if got := r.Status(); time.Since(got.LastContact) > 2*time.Minute {
			t.Errorf("status: got %+v, want contact once lists are answered", got)
		}
	})
}

// A list that was overtaken by an event proves nothing.
func TestEventDuringVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := newStream()
		slow := newSlowLists(&fakeSource{
			onList:  lists(brings("7", *secret("5")), brings("7", *secret("5"))),
			onWatch: streams(func() (listwatch.Stream, error) { return stream, nil }),
		})
		r := start(t, slow, reflector.Options{})
		<-slow.begun
		stream.events <- event(watch.Modified, secret("9"))
		synctest.Wait()
		close(slow.letGo)
		synctest.Wait()
		if got := r.Status(); watches(slow.fakeSource) != 1 || got.LastError != nil {
			t.Errorf("status: got %+v, want the stream kept", got)
		}
		if got := r.slot.Load(); got.ResourceVersion != "9" {
			t.Errorf("state: got %+v, want what the event brought", got)
		}
	})
}

// Where the store cannot tell what it holds, only a rolled-back server is found.
func TestVerificationWithAnotherStore(t *testing.T) {
	tests := map[string]struct {
		second  func() (runtime.Object, error)
		watches int
	}{
		"other content": {brings("105", *secret("104")), 1},
		"rolled back":   {brings("60", *secret("40")), 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := listOnly{&fakeSource{onList: lists(brings("100", *secret("90")), test.second), onWatch: streams(opens())}}
				r := reflector.New(source, toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), reflector.Options{ClientGoReflector: clientGo})
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				r.Run(ctx)
				if got := watches(source.fakeSource); got != test.watches {
					t.Errorf("watches: got %d, want %d", got, test.watches)
				}
			})
		})
	}
}

// A gate that was left by all watches over those who come later.
func TestSilenceIsWatchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{})}
		source := func() listOnly { return listOnly{&fakeSource{onList: lists(brings("7")), onWatch: streams(opens())}} }
		start(t, source(), options).stop()
		after(time.Hour)
		second := start(t, source(), options)
		after(150 * time.Second)
		if got := verbs(second.source.seen()); !slices.Equal(got, []string{"list ", "watch 7", "list "}) {
			t.Errorf("requests: got %q, want a verification at the end", got)
		}
	})
}

// Verifications go through the gate like everything else.
func TestVerificationsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 3})
		f.start(30, "secrets")
		f.forget()
		f.takes(200 * time.Millisecond)
		after(150 * time.Second)
		if got := f.mostOpening(); got != 3 {
			t.Errorf("lists at a time: got %d, want 3", got)
		}
		ids := f.order()
		slices.Sort(ids)
		if got := slices.Compact(slices.Clone(ids)); len(ids) != 30 || len(got) != 30 {
			t.Errorf("lists: got those of %v, want one of each of 30", ids)
		}
	})
}
