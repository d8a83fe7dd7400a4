// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// Members that callers wait for may all fail for the first time, as after a change of rights. Their attempts are
// spaced, and a new member does not wait for all of them.
func TestNewMemberDoesNotWaitForThoseThatFail(t *testing.T) {
	for name, kind := range map[string]admission.Kind{"refused": admission.Refused, "answered": admission.Answered} {
		for name, test := range map[string]struct {
			waited bool
			most   time.Duration
		}{name + ", a caller waits": {true, 500 * time.Millisecond}, name: {false, 2500 * time.Millisecond}} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 32, func(r *rig) {
					bad := r.join(1000, "secrets", healthy())
					advance(time.Minute)
					r.behave(bad, fails(kind))
					r.cutStreams(bad)
					for _, c := range bad {
						c.Expedite()
					}
					advance(300 * time.Millisecond) // they are queued
					one := r.join(1, "secrets", healthy())[0]
					if test.waited {
						one.Expedite()
					}
					advance(time.Minute)
					if took, ok := one.firstAttempt(); !ok || took > test.most {
						t.Errorf("first attempt of the new member: got %v after %v, want one after at most %v", ok, took, test.most)
					}
				})
			})
		}
	}
}
