// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

type verb = func(*reflector.Reflector)

var (
	follow  verb = (*reflector.Reflector).Follow
	readOne verb = (*reflector.Reflector).Read
	pause   verb = (*reflector.Reflector).Pause
)

// versions is a server whose state has a new version with each request.
func versions() *fakeSource {
	version := 0
	next := func() string { version++; return string(rune('0' + version)) }
	return &fakeSource{
		onList: func(metav1.ListOptions) (runtime.Object, error) { v := next(); return list(v, secret(v)), nil },
		onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			v := next()
			return newStream(state(secret(v), v)...), nil
		},
	}
}

// Each verb takes effect at once, and until the next one.
func TestFollowReadPause(t *testing.T) {
	type test struct {
		before, verbs []verb
		want          []string // the requests
		streaming     bool
		synced        bool
	}
	const followed, listed = "WatchList ", "list "
	tests := map[string]test{
		"no verb":                 {want: []string{followed}, streaming: true, synced: true},
		"read":                    {before: []verb{readOne}, want: []string{listed}, synced: true},
		"read twice before Run":   {before: []verb{readOne, readOne}, want: []string{listed}, synced: true},
		"pause before Run":        {before: []verb{pause}},
		"pause, follow":           {before: []verb{pause}, verbs: []verb{follow}, want: []string{followed}, streaming: true, synced: true},
		"pause, pause, read":      {before: []verb{pause}, verbs: []verb{pause, readOne}, want: []string{listed}, synced: true},
		"read, read":              {before: []verb{readOne}, verbs: []verb{readOne}, want: []string{listed, listed}, synced: true},
		"read, follow":            {before: []verb{readOne}, verbs: []verb{follow}, want: []string{listed, followed}, streaming: true, synced: true},
		"read, pause":             {before: []verb{readOne}, verbs: []verb{pause}, want: []string{listed}, synced: true},
		"follow, read":            {verbs: []verb{readOne}, want: []string{followed, listed}, synced: true},
		"follow, readOne, follow": {verbs: []verb{readOne, follow}, want: []string{followed, listed, followed}, streaming: true, synced: true},
		"follow, follow":          {verbs: []verb{follow}, want: []string{followed, followed}, streaming: true, synced: true},
		"follow, pause":           {verbs: []verb{pause}, want: []string{followed}, synced: true},
		"follow, pause, follow":   {verbs: []verb{pause, follow}, want: []string{followed, followed}, streaming: true, synced: true},
		"follow, pause, refresh":  {verbs: []verb{pause, (*reflector.Reflector).Refresh}, want: []string{followed}, synced: true},
		"follow, pause, expedite": {verbs: []verb{pause, (*reflector.Reflector).Expedite}, want: []string{followed}, synced: true},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			r := start(t, versions(), reflector.Options{}, test.before...)
			for _, do := range test.verbs {
				do(r.Reflector)
				after(100 * time.Millisecond)
			}
			got := r.Status()
			if got.Streaming != test.streaming || got.Synced != test.synced || got.Waiting != nil || got.Failures > 0 || got.LastError != nil {
				t.Errorf("status: got %+v, want streaming %v, synced %v, and nothing that waits or failed", got, test.streaming, test.synced)
			}
			if want := string(rune('0' + len(test.want))); len(test.want) > 0 && r.slot.Load().ResourceVersion != want {
				t.Errorf("state: got %+v, want version %v, that of the last request", r.slot.Load(), want)
			}
			if !test.streaming {
				after(time.Hour)
			}
			if got := r.source.asked(); !slices.Equal(got, test.want) {
				t.Errorf("requests: got %q, want %q", got, test.want)
			}
		})
	})
}

// What a read or a stream has brought before the pause is of use after it: a read that is older proves a rollback of
// the server. Others of the gate learn of it.
func TestRollbackDuringAPause(t *testing.T) {
	for name, again := range map[string]verb{"read": readOne, "follow": follow} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := reflector.NewGate(reflector.GateOptions{})
				source := &fakeSource{
					onList:  lists(brings("4", secret("3"))),
					onWatch: streams(opens(state(secret("5"), "9")...), opens(state(secret("3"), "4")...)),
				}
				r := start(t, source, reflector.Options{Gate: gate})
				other := start(t, watching(opens(state(secret("6"), "9")...), opens(state(secret("2"), "4")...)), reflector.Options{Gate: gate})
				r.Pause()
				after(time.Second)
				again(r.Reflector)
				after(5 * time.Second)
				if got := r.slot.Load(); got.Epoch != 1 || got.ResourceVersion != "3" {
					t.Errorf("state: got %+v, want version 3 in epoch 1", got)
				}
				if got := other.slot.Load(); got.Epoch != 1 || got.ResourceVersion != "2" {
					t.Errorf("state of another reflector: got %+v, want version 2 in epoch 1", got)
				}
			})
		})
	}
}

// A request that is under way ends with the pause, and that is no failure.
func TestPauseEndsARequest(t *testing.T) {
	for name, verb := range map[string]verb{"stream": follow, "read": readOne} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, blocking{}, reflector.Options{}, verb)
				if r.Status().AskedAt.IsZero() {
					t.Fatal("no request is under way")
				}
				r.Pause()
				after(time.Hour)
				if got := r.Status(); got.Failures > 0 || got.LastError != nil || !got.AskedAt.IsZero() || got.Synced {
					t.Errorf("status: got %+v, want no failure and no request", got)
				}
			})
		})
	}
}

// neverOpens is a source whose streams are being opened until they end.
type neverOpens struct{ *fakeSource }

func (s neverOpens) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	s.record("watch", options)
	<-ctx.Done()
	return nil, ctx.Err()
}

// A caller of Read waits for no stream that opens slowly. Read while a read is under way sends no other request.
func TestReadEndsAnOpening(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := &fakeSource{onList: func(metav1.ListOptions) (runtime.Object, error) { time.Sleep(time.Second); return list("5"), nil }}
		r := start(t, neverOpens{source}, reflector.Options{})
		for range 3 {
			r.Read()
			after(300 * time.Millisecond)
		}
		want := []string{"WatchList ", "list "}
		if got := r.source.asked(); !slices.Equal(got, want) || r.Status().Synced {
			t.Errorf("requests: got %q, want %q, and the list under way", got, want)
		}
		after(time.Hour)
		if got := r.source.asked(); !slices.Equal(got, want) || !r.Status().Synced {
			t.Errorf("requests: got %q, want %q, and a state", got, want)
		}
	})
}

// A pause and the admission of a request meet: no stream stays open.
func TestPauseAtAnAdmission(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, versions(), reflector.Options{}, pause)
		for range 100 {
			r.Follow() // is admitted at once
			r.Pause()
			synctest.Wait()
			if got := r.Status(); got.Streaming || !got.AskedAt.IsZero() {
				t.Fatalf("status: got %+v, want no stream and no request", got)
			}
		}
	})
}

// A source ignores that its request has ended. What it brings is not what Read after the pause has asked for. That read
// begins when the request has ended: there are never two.
func TestReadAfterARequestThatDoesNotEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		answer := make(chan string)
		source := listing(&fakeSource{onList: func(metav1.ListOptions) (runtime.Object, error) {
			version := <-answer
			return list(version, secret(version)), nil
		}})
		r := start(t, source, reflector.Options{}, readOne)
		r.Pause()
		after(time.Second)
		r.ReadFor(2)
		r.Read()
		after(time.Second)
		if got := len(r.source.seen()); got != 1 {
			t.Errorf("requests while the first one is under way: got %d, want 1", got)
		}
		answer <- "5"
		after(time.Second)
		if got := r.Status(); got.Synced || got.ReadFor > 0 || len(r.source.seen()) != 2 {
			t.Errorf("status: got %+v after %d requests, want the second one under way, and nothing synced", got, len(r.source.seen()))
		}
		answer <- "7"
		after(time.Hour)
		if got := r.Status(); !got.Synced || got.ReadFor != 2 || len(r.source.seen()) != 2 {
			t.Errorf("status: got %+v after %d requests, want the state of the second one", got, len(r.source.seen()))
		}
	})
}

// A reflector that waits for its next attempt makes none in a pause. After a long pause it makes one at once, and its
// failures of before do not count.
func TestPauseAfterAFailure(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := listing(&fakeSource{onList: lists(listFails(forbidden()), listFails(forbidden()), brings("5"))})
		r := start(t, source, reflector.Options{}, readOne)
		after(130 * time.Millisecond)
		failed := r.Status()
		if failed.Failures == 0 || failed.Waiting == nil || len(r.source.seen()) == 3 {
			t.Fatalf("status: got %+v after %d requests, want a failure, and a pause after it", failed, len(r.source.seen()))
		}
		r.Pause()
		before := len(r.source.seen())
		after(time.Hour)
		if got := r.Status(); len(r.source.seen()) != before || got.Waiting != nil || got.Failures != failed.Failures {
			t.Errorf("in the pause: got status %+v and %d more requests, want the same failures, and none", got, len(r.source.seen())-before)
		}
		r.Read()
		if got := r.Status(); got.Failures > 0 || !got.RefusedSince.IsZero() || got.LastError == nil {
			t.Errorf("after the pause: got status %+v, want no failure that counts", got)
		}
		after(time.Millisecond)
		if got := len(r.source.seen()); got != before+1 {
			t.Errorf("after the pause: got %d more requests, want 1", got-before)
		}
	})
}

// Read and Follow in OnChange, as of a store that decides by what was read, need no time.
func TestFollowWhenARead(t *testing.T) {
	for name, want := range map[string][]string{"follow": {"list ", "WatchList "}, "read": {"list ", "list "}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var r *reflector.Reflector
				once := sync.OnceFunc(map[string]func(){"follow": func() { r.Follow() }, "read": func() { r.Read() }}[name])
				onChange := func() {
					if r.Status().Synced {
						once()
					}
				}
				rig := start(t, versions(), reflector.Options{OnChange: onChange}, readOne, func(given *reflector.Reflector) { r = given })
				after(time.Millisecond)
				if got := rig.source.asked(); !slices.Equal(got, want) {
					t.Errorf("requests: got %q, want %q", got, want)
				}
			})
		})
	}
}
