// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// A kind whose answers take 10 s holds no other kind up, however many of its members wait.
func TestSlowKindDelaysNoOther(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		slow := r.join(1000, "configmaps", healthy().taking(10*time.Second))
		advance(3 * time.Minute)
		if got := r.countSynced(slow); got != len(slow) {
			t.Errorf("the slow kind: got %d of %d synced", got, len(slow))
		}
		r.cutStreams(slow)
		advance(time.Second)
		fast := r.join(500, "secrets", healthy())
		advance(5 * time.Second)
		if got := r.longestWait(fast); got > firstAttemptBound {
			t.Errorf("500 of another kind: got the last first attempt after %v, want %v at most", got, firstAttemptBound)
		}
		for range 100 {
			one := r.join(1, "leases", healthy())
			one[0].Expedite()
			advance(100 * time.Millisecond)
			if got := r.longestWait(one); got > 100*time.Millisecond {
				t.Errorf("one of a third kind: got its first attempt after %v", got)
			}
		}
	})
}

// A 401 for one kind, as from an aggregated API server, is no reason for others to wait.
func TestUnauthorizedKindDelaysNoOther(t *testing.T) {
	for name, takes := range map[string]time.Duration{"fast": 10 * time.Millisecond, "slow": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 256, func(r *rig) {
				good := r.join(300, "secrets", healthy().taking(takes))
				advance(time.Minute)
				bad := r.join(100, "configmaps", fails(admission.Unauthorized))
				r.expedite(bad, 200*time.Millisecond, 10*time.Second)
				r.cutStreams(good)
				began := time.Now()
				for r.countSynced(good) < len(good) && time.Since(began) < time.Minute {
					r.expedite(bad, 200*time.Millisecond, 200*time.Millisecond)
				}
				if took, most := time.Since(began), time.Second+7*takes; took > most {
					t.Errorf("the other kind: got all synced %v after a cut, want at most %v", took, most)
				}
				if got := r.Status(); got.Cause == nil {
					t.Errorf("status: got %+v, want the 401 of the one kind", got)
				}
			})
		})
	}
}

// When the token is invalid, two kinds agree, and the server is asked by one of all members at a time. A success of
// one of them ends that for all.
func TestUnauthorizedKindsAgree(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		var all []*client
		for _, kind := range []string{"secrets", "configmaps", "leases", "pods"} {
			all = append(all, r.join(250, kind, healthy())...)
		}
		advance(time.Minute)
		r.behave(all, fails(admission.Unauthorized))
		r.cutStreams(all)
		r.expedite(all, 100*time.Millisecond, 10*time.Second)
		began := time.Now()
		r.expedite(all, 100*time.Millisecond, time.Minute)
		if got := r.attemptsSince(began); got > 60 {
			t.Errorf("attempts in a minute: got %d, want at most one a second", got)
		}
		r.behave(all, healthy())
		advance(8 * time.Second)
		if got := r.countSynced(all); got != len(all) {
			t.Errorf("synced 8 s after the token is valid: got %d of %d", got, len(all))
		}
	})
}

// Where there is only one member, two of its failures are an outage: to reach the server, to get an answer in time, or
// to get more than a 5xx. A refusal is none. The first success ends it.
func TestOnlyMemberIsAnOutage(t *testing.T) {
	for name, test := range map[string]struct {
		behavior behavior
		want     bool
	}{
		"connection refused": {fails(admission.Unreachable), true},
		"hangs":              {hangs(), true},
		"5xx":                {fails(admission.Failed), true},
		"403":                {fails(admission.Refused), false},
		"429":                {fails(admission.Throttled), false},
	} {
		for _, synced := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 256, func(r *rig) {
					one := r.join(1, "secrets", healthy())
					advance(time.Minute)
					if !synced {
						one[0].Leave()
						r.clients = nil
						one = r.join(1, "secrets", test.behavior)
					} else {
						r.behave(one, test.behavior)
						r.cutStreams(one)
					}
					advance(20 * time.Millisecond)
					if got := r.Status().Cause; got != nil {
						t.Errorf("after one failure at most: got cause %v, want none", got)
					}
					advance(3 * time.Minute)
					if got := r.Status().Cause; (got != nil) != test.want {
						t.Errorf("after some failures: got cause %v, want one: %t", got, test.want)
					}
					r.behave(one, healthy())
					advance(90 * time.Second)
					if got := r.Status(); got.Cause != nil || r.countSynced(one) != 1 {
						t.Errorf("when it is served: got %+v, want no cause", got)
					}
				})
			})
		}
	}
}

// Members that join one by one while the server is away make 128 attempts, and then few. The same holds for an invalid
// token.
func TestArrivalsAtADeadServer(t *testing.T) {
	for name, kind := range map[string]admission.Kind{"away": admission.Unreachable, "invalid token": admission.Unauthorized} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 256, func(r *rig) {
				old := r.join(100, "secrets", healthy())
				old = append(old, r.join(100, "configmaps", healthy())...)
				advance(time.Minute)
				r.behave(old, fails(kind))
				r.cutStreams(old)
				arrive := func(during time.Duration) {
					for i := range int(during / (100 * time.Millisecond)) {
						r.join(1, []string{"secrets", "configmaps"}[i%2], fails(kind))[0].Expedite()
						advance(100 * time.Millisecond)
					}
				}
				arrive(20 * time.Second)
				began := time.Now()
				arrive(time.Minute)
				if got := r.attemptsSince(began); got > 5*60 {
					t.Errorf("attempts in a minute: got %d, want at most five a second", got)
				}
			})
		})
	}
}

// A kind that is slow and has more members than there are places leaves some to others.
func TestSlowKindLeavesPlaces(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		r.join(1, "secrets", healthy())
		r.join(400, "leases", healthy().taking(2*time.Second)) // 50 s
		advance(20 * time.Second)
		for range 10 {
			one := r.join(20, "secrets", healthy())
			advance(500 * time.Millisecond)
			if got := r.countSynced(one); got != len(one) {
				t.Errorf("secrets that synced within half a second: got %d of %d", got, len(one))
			}
			advance(500 * time.Millisecond)
		}
	})
}
