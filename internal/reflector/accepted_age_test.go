// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/slept"
)

// acceptedAge is the age of the tests of AcceptAge.
const acceptedAge = time.Second

func acceptAge(r *reflector.Reflector) { r.AcceptAge(acceptedAge) }

// known returns a gate that knows the consistent read of a reflector, which was answered with
// version 7 after took.
func known(t *testing.T, took time.Duration) *reflector.Gate {
	t.Helper()
	gate := reflector.NewGate(reflector.GateOptions{})
	start(t, watching(slow(took, opens(state(secret("5"), "7")...))), reflector.Options{Gate: gate, Resource: "secrets"})
	after(took)
	return gate
}

// A first read that accepts an age is at the version of the newest consistent read of the resource if that began at
// most so long ago. All other reads are consistent.
func TestAcceptAge(t *testing.T) {
	tests := map[string]struct {
		took, later time.Duration // of the consistent read, since its answer
		resource    string        // default: secrets
		before      []func(*reflector.Reflector)
		want        string
	}{
		"young":                   {0, acceptedAge - 1, "", []func(*reflector.Reflector){acceptAge}, "WatchList 7"},
		"as old as may be":        {0, acceptedAge, "", []func(*reflector.Reflector){acceptAge}, "WatchList 7"},
		"too old":                 {0, acceptedAge + 1, "", []func(*reflector.Reflector){acceptAge}, "WatchList "},
		"not accepted":            {0, 1, "", nil, "WatchList "},
		"slow, and young":         {acceptedAge / 2, acceptedAge / 2, "", []func(*reflector.Reflector){acceptAge}, "WatchList 7"},
		"began too long ago":      {acceptedAge / 2, acceptedAge/2 + 1, "", []func(*reflector.Reflector){acceptAge}, "WatchList "},
		"of another resource":     {0, 1, "configmaps", []func(*reflector.Reflector){acceptAge}, "WatchList "},
		"then ReadFor":            {0, 1, "", []func(*reflector.Reflector){acceptAge, func(r *reflector.Reflector) { r.ReadFor(1) }}, "WatchList "},
		"then Refresh":            {0, 1, "", []func(*reflector.Reflector){acceptAge, (*reflector.Reflector).Refresh}, "WatchList "},
		"then Follow":             {0, 1, "", []func(*reflector.Reflector){acceptAge, (*reflector.Reflector).Follow}, "WatchList "},
		"after ReadFor":           {0, 1, "", []func(*reflector.Reflector){func(r *reflector.Reflector) { r.ReadFor(1) }, acceptAge}, "WatchList 7"},
		"after Follow":            {0, 1, "", []func(*reflector.Reflector){(*reflector.Reflector).Follow, acceptAge}, "WatchList 7"},
		"of a reflector for once": {0, 1, "", []func(*reflector.Reflector){(*reflector.Reflector).Read, acceptAge}, "list "},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test struct {
			took, later time.Duration
			resource    string
			before      []func(*reflector.Reflector)
			want        string
		}) {
			gate := known(t, test.took)
			time.Sleep(test.later)
			resource := test.resource
			if resource == "" {
				resource = "secrets"
			}
			source := watching(opens(state(secret("5"), "9")...))
			source.onList = lists(brings("9", secret("5")))
			r := start(t, source, reflector.Options{Gate: gate, Resource: resource}, test.before...)
			after(time.Second)
			checkAsked(t, "second", r, test.want)
			if got := r.slot.Load(); got.ResourceVersion != "5" {
				t.Errorf("got %v, want version 5", got)
			}
		})
	})
}

// What a machine was suspended for counts: a read of before that is too old.
func TestAcceptAgeCountsASleep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := known(t, 0)
		t.Cleanup(slept.Fake(time.Hour))
		time.Sleep(10 * time.Millisecond)
		r := start(t, watching(opens(state(secret("5"), "9")...)), reflector.Options{Gate: gate, Resource: "secrets"}, acceptAge)
		checkAsked(t, "second", r, "WatchList ")
	})
}

// A read that a server does not have serves no reflector that has accepted it. Nor does one that began before it, and
// was answered later.
func TestAcceptAgeOfAReadThatIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		join := func(source listwatch.Source, before ...func(*reflector.Reflector)) *rig {
			return start(t, source, reflector.Options{Gate: gate, Resource: "secrets"}, before...)
		}
		join(watching(slow(2*time.Second, opens(state(secret("5"), "6")...)))) // began first, and is answered last
		join(watching(opens(state(secret("5"), "7")...)))
		busy := apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, http.MethodGet, resource, "", "busy", 3, true)
		waits := join(watching(fails(busy), opens(state(secret("5"), "9")...)), acceptAge)
		behind := join(watching(fails(tooLarge()), slow(time.Hour, opens())), acceptAge)
		after(10 * time.Second)
		checkAsked(t, "behind", behind, "WatchList 7", "WatchList ")
		checkAsked(t, "waiting", waits, "WatchList 7", "WatchList ")
	})
}

// A server that does not have the version of the accepted read lags. The read after it is a consistent one, and no
// other reflector asks for that version.
func TestAcceptAgeOfAServerThatLags(t *testing.T) {
	for name, first := range map[string]watchAnswer{"too large": fails(tooLarge()), "an older state": opens(state(secret("3"), "6")...)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				gate := known(t, 0)
				r := start(t, watching(first, opens(state(secret("5"), "9")...)), reflector.Options{Gate: gate, Resource: "secrets"}, acceptAge)
				if got := r.slot.Load(); got.Synced && got.ResourceVersion != "5" {
					t.Errorf("got the state %v, want none that is older than the read", got)
				}
				after(10 * time.Second)
				checkAsked(t, "second", r, "WatchList 7", "WatchList ")
			})
		})
	}
}

// After a restore of etcd that another reflector has proved, no first read is at a version from before it.
func TestAcceptAgeFromBeforeARestore(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		join := func(source listwatch.Source, before ...func(*reflector.Reflector)) *rig {
			return start(t, source, reflector.Options{Gate: gate, Resource: "secrets"}, before...)
		}
		join(watching(opens(state(secret("5"), "20")...), slow(time.Hour, opens())))
		proves := join(listing(&fakeSource{
			onList:  lists(brings("20", secret("5")), brings("6", secret("5"))),
			onWatch: streams(slow(time.Second, breaks(io.EOF)), opens()),
		}))
		proves.ReadFor(1)
		after(1500 * time.Millisecond)
		checkAsked(t, "proving", proves, "list ", "watch 20", "list ", "watch 6")
		r := join(watching(opens(state(secret("5"), "9")...)), func(r *reflector.Reflector) { r.AcceptAge(time.Minute) })
		after(time.Second)
		checkAsked(t, "new", r, "WatchList ")
	})
}
