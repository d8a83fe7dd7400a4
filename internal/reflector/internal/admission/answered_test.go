// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"errors"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// What becomes of an answer says nothing about the server. In an outage that began after the answer, a failure of any
// kind ends neither that nor the pauses of others, and no Retry-After in it counts.
func TestFailureAfterAnAnswer(t *testing.T) {
	for name, kind := range map[string]admission.Kind{
		"refused": admission.Refused, "failed": admission.Failed, "answered": admission.Answered, "throttled": admission.Throttled,
		"unauthorized": admission.Unauthorized, "unreachable": admission.Unreachable,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 64, func(r *rig) {
				var late []*admission.Member
				for range 20 {
					m := join(r.Controller, "secrets", nil)
					if err := m.Acquire(r.ctx); err != nil {
						t.Fatal(err)
					}
					m.Answered()
					late = append(late, m)
				}
				all := r.join(1000, "secrets", healthy())
				advance(time.Minute)
				r.behave(all, fails(admission.Unreachable))
				r.cutStreams(all)
				advance(30 * time.Second)
				began := time.Now()
				for _, m := range late {
					m.Release(admission.Outcome{Kind: kind, Cause: errors.New("the caller's own"), RetryAfter: time.Hour})
					advance(500 * time.Millisecond)
				}
				if got := r.attemptsSince(began); got > 10 {
					t.Errorf("attempts in 10 s of the outage: got %d, want one each 1 to 5 s", got)
				}
				if got := r.Status(); !errors.Is(got.Cause, errBad) {
					t.Errorf("got the outage %v, want that of the server", got.Cause)
				}
				r.behave(all, healthy())
				advance(time.Minute)
				again := late[0]
				for range 3 {
					began = time.Now()
					if err := again.Acquire(r.ctx); err != nil || time.Since(began) > 10*time.Second {
						t.Fatalf("next attempt after %v with %v, want one within 10 s", time.Since(began), err)
					}
					again.Answered()
					again.Release(admission.Outcome{Kind: kind, RetryAfter: time.Hour})
				}
				for _, m := range late {
					m.Leave()
				}
			})
		})
	}
}
