// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/testmain"
)

// Rights are given by verb: the tests of this file refuse a list or a watch.

// Where list is allowed and watch is not, or fails, the listed state is served, the list is
// repeated at the pace of the back-off, and the status has the cause.
func TestListAllowedAndWatchNot(t *testing.T) {
	type test struct {
		err      error
		large    bool
		requests int // for each list
	}
	tests := map[string]test{
		"403": {forbidden(), true, 1}, "404": {refusal(404), false, 1}, "501": {refusal(501), false, 1},
		"500": {refusal(500), false, 2}, "503": {unavailable(), false, 2}, "429": {throttled(1), false, 2},
		"closed": {io.ErrUnexpectedEOF, false, 2},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			listAllowedAndWatchNot(t, test.err, test.requests, large(test.large, 1000))
		})
	})
}

func listAllowedAndWatchNot(t *testing.T, err error, requests, n int) {
	var version atomic.Pointer[string]
	var allowed atomic.Bool
	version.Store(ptr.To("5"))
	g := newGroup(t, n, func() *fakeSource {
		return &fakeSource{
			onList: func(metav1.ListOptions) (runtime.Object, error) { return list("9", secret(*version.Load())), nil },
			onWatch: func(options metav1.ListOptions) (listwatch.Stream, error) {
				switch {
				case !allowed.Load():
					return nil, err
				case options.SendInitialEvents != nil:
					return newStream(state(secret(*version.Load()), "9")...), nil
				}
				return newStream(), nil
			},
		}
	})
	after(time.Minute)
	for i, r := range g {
		got := r.Status()
		if !r.slot.Load().Exists || got.Failures == 0 || !got.Polled || failure.Of(got.LastError) != failure.Of(err) {
			t.Fatalf("reflector %d: got %+v, want the state of the list, and a failure with %v", i, got, err)
		}
	}
	before := g.requests()
	after(2 * time.Minute)
	if got, most := g.requests()-before, requests*n*2*60/7; got > most {
		t.Errorf("requests in two minutes: got %d, want at most %d: a list each 7.5 to 15 s, and few watches", got, most)
	}
	version.Store(ptr.To("6"))
	after(max(16*time.Second, time.Duration(n)*time.Second/15)) // they share 20 attempts a second
	for i, r := range g {
		if got := r.slot.Load(); got.ResourceVersion != "6" {
			t.Fatalf("reflector %d after a change: got %+v, want version 6", i, got)
		}
	}
	allowed.Store(true)
	after(15*time.Minute + 20*time.Second + time.Duration(n)*time.Second/5)
	if got := g.synced(); got != n || g[0].Status().Polled {
		t.Errorf("watching once that is allowed: got %d of %d, the first: %+v", got, n, g[0].Status())
	}
}

// A caller that may neither list nor watch does not cost twice the requests.
func TestForbiddenIsNotTwiceTheRequests(t *testing.T) {
	testmain.Long(t)
	type test struct {
		err   error
		large bool
		least func(n int) int // WatchLists in three minutes
	}
	tests := map[string]test{
		"403": {forbidden(), true, func(n int) int { return 3 * n }}, // failing reflectors share 20 attempts a second
		"404": {refusal(404), false, func(n int) int { return 15 * n }},
		"401": {unauthorized(), false, func(int) int { return 30 }}, // one probe for all
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			n := large(test.large, 1000)
			g := newGroup(t, n, func() *fakeSource {
				return &fakeSource{onList: lists(listFails(test.err)), onWatch: streams(fails(test.err))}
			})
			after(3 * time.Minute)
			lists, watches := g.count("list"), g.count("WatchList")
			if lists > watches/4 || g.count("watch") > 0 {
				t.Errorf("requests: got %d lists beside %d WatchLists and %d watches, want few, and none", lists, watches, g.count("watch"))
			}
			if least := test.least(n); watches < least {
				t.Errorf("WatchLists: got %d in three minutes, want at least %d", watches, least)
			}
		})
	})
	eachCase(t, map[string]error{"403 after polling": forbidden(), "503 after polling": unavailable()}, func(t *testing.T, err error) {
		var turned atomic.Bool
		g := newGroup(t, 400, func() *fakeSource { return polled(&turned, err, fails(forbidden())) })
		after(3 * time.Minute)
		turned.Store(true)
		after(10 * time.Minute)
		before := g.requests()
		after(10 * time.Minute)
		if got := g.requests() - before; got > 25*600 { // 20 attempts a second, and few with two requests
			t.Errorf("requests of 400 reflectors in ten minutes: got %d, want about 20 a second", got)
		}
	})
}

// polled is a source whose watches are refused, and whose lists work, until it turns: then its lists fail, and its
// watches are answered otherwise.
func polled(turned *atomic.Bool, lists error, watches func() (listwatch.Stream, error)) *fakeSource {
	return &fakeSource{
		onWatch: func(metav1.ListOptions) (listwatch.Stream, error) {
			if !turned.Load() {
				return nil, forbidden()
			}
			return watches()
		},
		onList: func(metav1.ListOptions) (runtime.Object, error) {
			if turned.Load() {
				return nil, lists
			}
			return list("7", secret("5")), nil
		},
	}
}

// A refused Read of an object that was polled lists once in each attempt, and tries a WatchList in its place.
func TestRefusedReadAfterPolling(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var turned atomic.Bool
		g := newGroup(t, 1, func() *fakeSource { return polled(&turned, forbidden(), fails(forbidden())) })
		after(3 * time.Minute)
		turned.Store(true)
		g[0].Read()
		after(time.Minute)
		lists, watches := g.count("list"), g.count("WatchList")
		after(time.Hour)
		if lists, watches = g.count("list")-lists, g.count("WatchList")-watches; lists > watches*3/2 {
			t.Errorf("a Read that is refused, in an hour: got %d lists beside %d WatchLists, want about one each", lists, watches)
		}
	})
}

// A caller that may watch and not list uses a WatchList, although other reflectors
// found that WatchLists break.
func TestWatchAllowedAndListNot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		g := newGroup(t, 1, func() *fakeSource { return withoutWatchList(breaks(io.EOF)) })
		after(time.Second)
		source := withoutWatchList(opens(state(secret("5"), "7")...))
		source.onList = lists(listFails(forbidden()))
		r := g.join(t, source)
		after(time.Second)
		if got := r.Status(); !got.Synced || got.Failures != 0 || len(source.seen()) != 2 {
			t.Errorf("status: got %+v after %q, want it synced by a WatchList after a list", got, source.asked())
		}
	})
}

// An object was polled, because watches were refused. Then lists fail, and a WatchList that works is found.
func TestListsFailAfterWatchesWereRefused(t *testing.T) {
	tests := map[string]error{"503": unavailable(), "500": unreadable(), "429": throttled(1), "closed": io.ErrUnexpectedEOF, "403": forbidden()}
	eachCase(t, tests, func(t *testing.T, err error) {
		var turned atomic.Bool
		source := polled(&turned, err, opens(state(secret("8"), "9")...))
		r := start(t, source, reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"})
		after(30 * time.Second)
		if !r.Status().Polled {
			t.Fatalf("got %+v, want an object that is polled", r.Status())
		}
		turned.Store(true)
		after(2 * time.Minute)
		if got := r.slot.Load().ResourceVersion; got != "8" {
			t.Errorf("2 minutes after WatchLists work and lists do not: got version %s, want 8; status %+v", got, r.Status())
		}
	})
}

// An object was polled, because watches failed. After an outage of all requests a list is never farther than the second
// attempt.
func TestPolledObjectAfterAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var down atomic.Bool
		source := &fakeSource{
			onWatch: func(metav1.ListOptions) (listwatch.Stream, error) { return nil, unreadable() },
			onList: func(metav1.ListOptions) (runtime.Object, error) {
				if down.Load() {
					return nil, unavailable()
				}
				return list("7", secret("5")), nil
			},
		}
		r := start(t, source, reflector.Options{Gate: reflector.NewGate(reflector.GateOptions{}), Resource: "secrets"})
		after(10 * time.Minute)
		if !r.Status().Polled {
			t.Fatalf("got %+v, want an object that is polled", r.Status())
		}
		before := len(r.source.asked())
		down.Store(true)
		after(10 * time.Minute)
		requests := r.source.asked()[before:]
		for i := range requests[1:] {
			if pair := requests[i : i+2]; !slices.ContainsFunc(pair, func(asked string) bool { return strings.HasPrefix(asked, "list") }) {
				t.Fatalf("requests %d and %d of the outage: got %q, want a list among them", i, i+1, pair)
			}
		}
	})
}

// A WatchList is refused in its stream. The next session lists, and the first stream is closed.
func TestRefusalInAStream(t *testing.T) {
	tests := map[string]int{"not known": 400, "third refusal": 403}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, code int) {
			var refused []*fakeStream
			status, ok := errors.AsType[*apierrors.StatusError](refusal(code))
			if !ok {
				t.Fatal("the refusal is no status")
			}
			source := &fakeSource{onList: lists(brings("9", secret("5"))), onWatch: func(options metav1.ListOptions) (listwatch.Stream, error) {
				if options.SendInitialEvents == nil {
					return newStream(), nil
				}
				refused = append(refused, newStream(errorEvent(status)))
				return refused[len(refused)-1], nil
			}}
			r := start(t, source, reflector.Options{})
			after(10 * time.Second)
			if got := r.Status(); !got.Streaming || got.Failures > 0 || source.count("list") != 1 {
				t.Errorf("got %+v after %q, want a list and a watch", got, source.asked())
			}
			for i, stream := range refused {
				select {
				case <-stream.closed:
				default:
					t.Errorf("refused stream %d of %d is open", i, len(refused))
				}
			}
		})
	})
}
