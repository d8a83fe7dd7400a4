// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// A server does fewer attempts a second than failing members may make, one after the other. So each takes longer, the
// more there are. Members that are polled or refused are no reason for more of them: few wait at the server.
func TestFailingMembersOfALoadedServer(t *testing.T) {
	for name, answer := range map[string]behavior{"polled": healthy(), "refused": fails(admission.Refused)} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 256, func(r *rig) { testFailingMembersOfALoadedServer(t, r, answer) })
		})
	}
}

func testFailingMembersOfALoadedServer(t *testing.T, r *rig, answer behavior) {
	const each = 100 * time.Millisecond
	var free time.Time // when the server has handled all
	longest := time.Duration(0)
	r.streamEnd = &admission.Outcome{Kind: admission.Refused, Cause: errBad}
	r.override = func(int) (behavior, bool) {
		now := time.Now()
		if free.Before(now) {
			free = now
		}
		free = free.Add(each)
		longest = max(longest, free.Sub(now))
		return answer.taking(free.Sub(now)), true
	}
	r.join(1000, "secrets", healthy())
	advance(30 * time.Minute)
	began := time.Now()
	r.mu.Lock()
	longest = 0
	r.mu.Unlock()
	advance(10 * time.Minute)
	if got := r.attemptsSince(began); got < 5*600 {
		t.Errorf("attempts in 10 minutes: got %d, want 5 a second at least", got)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if longest > 2500*time.Millisecond {
		t.Errorf("an attempt took %v, want at most 2.5 s, for 20 that wait", longest)
	}
}

// One member is refused late, as by a webhook that times out. That says nothing of how long attempts of others take:
// those that hang hold no place.
func TestOneLateRefusalIsNoLatency(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 8 * time.Second, 30 * time.Second} {
		inBubble(t, 256, func(r *rig) {
			r.untilSynced(r.join(20, "secrets", healthy()), time.Minute)
			r.join(1, "secrets", fails(admission.Refused).taking(late))
			advance(2 * time.Minute)
			r.join(300, "secrets", hangs())
			if got := r.untilSynced(r.join(100, "secrets", healthy()), 10*time.Minute); got > 5 {
				t.Errorf("after a refusal that took %v: 100 healthy ones beside 300 that hang have synced after %.3g s, want 5 at most", late, got)
			}
		})
	}
}

// Callers wait for 300 forbidden members of one kind, and 300 of another one are forbidden. A third kind has its
// turns, in whichever order they came.
func TestThirdKindHasItsTurns(t *testing.T) {
	for _, kinds := range [][]string{{"awaited", "forbidden", "healed"}, {"healed", "forbidden", "awaited"}} {
		inBubble(t, 256, func(r *rig) {
			of := map[string][]*client{}
			for _, kind := range kinds {
				of[kind] = r.join(300, kind, fails(admission.Refused))
			}
			r.expedite(of["awaited"], time.Second, 10*time.Second)
			r.behave(of["healed"], healthy())
			r.expedite(of["awaited"], time.Second, 30*time.Second)
			if got := r.countSynced(of["healed"]); got < 300 {
				t.Errorf("%q: %d of 300 of the third kind have synced", kinds, got)
			}
		})
	}
}

// Kinds without a load change nothing: two kinds whose members fail share what there is.
func TestIdleKindsTakeNoTurns(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		var of [2][]*client
		for i := range of {
			of[i] = r.join(300, fmt.Sprint("failing-", i), fails(admission.Refused))
		}
		for i := range 20 {
			r.join(1, fmt.Sprint("idle-", i), healthy())
		}
		advance(5 * time.Minute)
		var attempts [2]int
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range of {
			for _, c := range of[i] {
				attempts[i] += len(c.attempts)
			}
		}
		if attempts[0] > 2*attempts[1] || attempts[1] > 2*attempts[0] {
			t.Errorf("attempts of two kinds: got %d, want the same of both", attempts)
		}
	})
}
