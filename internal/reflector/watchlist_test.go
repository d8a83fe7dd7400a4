// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// group is reflectors that share a gate, each with a scripted server of its own.
type group []*rig

func newGroup(t *testing.T, n int, source func() *fakeSource) (g group) {
	t.Helper()
	gate := reflector.NewGate(reflector.GateOptions{})
	for range n {
		g = append(g, start(t, source(), reflector.Options{Gate: gate, Resource: "secrets"}))
	}
	return g
}

// join adds a reflector to the gate of the group, but not to the group.
func (g group) join(t *testing.T, source *fakeSource) *rig {
	t.Helper()
	return start(t, source, reflector.Options{Gate: g[0].gate, Resource: "secrets"})
}

// count returns how many requests of a kind there were.
func (g group) count(kind string) (count int) {
	for _, r := range g {
		count += r.source.count(kind)
	}
	return count
}

func (g group) requests() int { return g.count("list") + g.count("watch") + g.count("WatchList") }

func (g group) synced() (count int) {
	for _, r := range g {
		if r.slot.Load().Exists && r.Status().Failures == 0 {
			count++
		}
	}
	return count
}

// large returns n in the cases that need a large group; n/20 in the others, with -short, and if streams
// are not parked.
func large(is bool, n int) int {
	if is && !blockingStreams && !testing.Short() {
		return n
	}
	return n / 20
}

// slow makes an answer take a while, as over a network.
func slow(takes time.Duration, answer watchAnswer) watchAnswer {
	return func() (listwatch.Stream, error) { time.Sleep(takes); return answer() }
}

// badWatchList is a way in which a server fails to serve a WatchList. It serves lists
// and plain watches.
type badWatchList struct {
	answer watchAnswer
	large  bool // test it with a large group
}

var badWatchLists = map[string]badWatchList{
	"400":                   {fails(refusal(400)), false},
	"403":                   {fails(forbidden()), true},
	"404":                   {fails(refusal(404)), false},
	"405":                   {fails(refusal(405)), true},
	"406":                   {fails(refusal(406)), false},
	"415":                   {fails(refusal(415)), false},
	"422":                   {fails(refusal(422)), false},
	"501":                   {fails(refusal(501)), false},
	"501 in the stream":     {opens(event(watch.Error, &metav1.Status{Code: 501})), false},
	"ends":                  {breaks(io.EOF), true},
	"ends after an event":   {breaks(io.EOF, event(watch.Added, secret("5"))), false},
	"ends within an event":  {breaks(io.ErrUnexpectedEOF, event(watch.Added, secret("5"))), true},
	"reset":                 {breaks(errors.New("stream error: INTERNAL_ERROR")), false},
	"no bookmark":           {opens(event(watch.Added, secret("5"))), false},
	"not decodable":         {opens(undecoded("unexpected token")), false},
	"not an event":          {opens(event("NEWS", secret("5"))), false},
	"a foreign object":      {opens(event(watch.Added, &metav1.Status{})), false},
	"panics":                {panicsAfter(event(watch.Added, secret("5"))), false},
	"panics while it opens": {panicsWith(canary), false},
}

// Issue 8: a server that ended each WatchList before its bookmark, or refused it in an
// unexpected way, served no object, at a thousand requests a second.
func TestIssue8_WhereWatchListFailsListsServe(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, badWatchLists, func(t *testing.T, bad badWatchList) {
			n := large(bad.large, 1000)
			g := newGroup(t, n, func() *fakeSource { return withoutWatchList(slow(10*time.Millisecond, bad.answer)) })
			after(time.Minute)
			if got := g.synced(); got != n {
				t.Errorf("synced after a minute: got %d of %d, the first: %+v", got, n, g[0].Status())
			}
			if got := g.requests(); got > 5*n {
				t.Errorf("requests in a minute: got %d (%d lists, %d watches), want at most 5 for each reflector", got, g.count("list"), g.count("watch"))
			}
		})
	})
}

// Issue 8: the same where WatchList worked before. The server was changed, or another
// one took over.
func TestIssue8_WhereWatchListNoLongerWorks(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, badWatchLists, func(t *testing.T, bad badWatchList) {
			n := large(bad.large, 300)
			changed := make(chan struct{})
			works := func() (listwatch.Stream, error) {
				stream := newStream(state(secret("5"), "7")...)
				go func() { <-changed; stream.finish(io.EOF) }()
				return stream, nil
			}
			g := newGroup(t, n, func() *fakeSource {
				next := inTurn([]watchAnswer{works, slow(10*time.Millisecond, bad.answer)})
				return withoutWatchList(func() (listwatch.Stream, error) { return next()() })
			})
			before := g.requests()
			if got := g.synced(); got != n || before != n {
				t.Fatalf("synced: got %d by %d requests, want %d by one each", got, before, n)
			}
			close(changed)
			after(3 * time.Minute)
			if got := g.synced(); got != n {
				t.Errorf("synced three minutes after the change: got %d of %d, the first: %+v", got, n, g[0].Status())
			}
			if got := g.requests() - before; got > 8*n {
				t.Errorf("requests after the change: got %d (%d lists), want at most 8 for each reflector", got, g.count("list"))
			}
		})
	})
}

// A refused WatchList is replaced by a list at once, without a failure.
func TestRefusedWatchListFallsBackAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, &fakeSource{
			onList:  lists(brings("7", secret("5"))),
			onWatch: streams(fails(refusal(422)), breaks(io.EOF), opens()),
		}, reflector.Options{})
		if got := r.slot.Load(); !got.Synced {
			t.Errorf("state: got %+v, want synced without a pause", got)
		}
		if got := r.Status(); got.Failures != 0 || got.LastError != nil {
			t.Errorf("status: got %+v, want no failure", got)
		}
		after(time.Minute)
		if got := r.source.count("WatchList"); got != 1 {
			t.Errorf("WatchLists: got %d, want 1: the refusal is remembered", got)
		}
	})
}

// Reflectors of a gate share what one of them has learned about WatchList, by
// resource, until it is tried again after an hour.
func TestGateRemembersWatchList(t *testing.T) {
	refused := fails(refusal(400))
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		check := func(about, resource string, answer watchAnswer, want int) {
			t.Helper()
			r := start(t, withoutWatchList(answer), reflector.Options{Gate: gate, Resource: resource})
			if got := r.source.count("WatchList"); got != want || !r.Status().Synced || r.Status().Failures != 0 {
				t.Errorf("%s: got %d WatchLists and %+v, want %d and synced", about, got, r.Status(), want)
			}
			r.stop() // or its verifications would go on
		}
		works := opens(state(secret("5"), "7")...)
		check("the first", "secrets", refused, 1)
		check("the second", "secrets", refused, 0)
		check("another resource", "configmaps", works, 1)
		after(61 * time.Minute)
		check("after an hour", "secrets", works, 1)
		check("after the upgrade", "secrets", works, 1)
	})
}

// client-go's feature gate WatchListClient is honored.
func TestWatchListClientGate(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		for name, on := range map[string]bool{"on": true, "off": false} {
			t.Run(name, func(t *testing.T) {
				featurestesting.SetFeatureDuringTest(t, features.WatchListClient, on)
				synctest.Test(t, func(t *testing.T) {
					r := start(t, withoutWatchList(opens(state(secret("5"), "7")...)), reflector.Options{})
					if got := r.source.count("WatchList"); !r.Status().Synced || (got == 1) != on {
						t.Errorf("WatchLists: got %d, want one with the gate on and none with it off", got)
					}
				})
			})
		}
	})
}
