// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// A member continues the pause of the one before, in its lane, and is not new. After a failure of long ago it is: its
// attempt does not wait for those of members that fail again and again.
func TestContinue(t *testing.T) {
	refused := admission.Outcome{Kind: admission.Refused, Cause: errBad}
	for name, test := range map[string]struct {
		synced      bool              // the previous member, whose stream then ended so; else its attempt ended so
		outcome     admission.Outcome // of the previous member
		after       time.Duration     // from then on, until the member joins
		least, most time.Duration     // from then on, until its attempt
	}{
		"failed":                 {false, refused, 0, 10 * time.Second, time.Hour},
		"stream refused":         {true, refused, 0, 10 * time.Second, time.Hour},
		"failed an hour before":  {false, refused, time.Hour, 0, 5 * time.Second},
		"within its Retry-After": {false, admission.Outcome{Kind: admission.Throttled, RetryAfter: 40 * time.Second}, 20 * time.Second, 20 * time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 32, func(r *rig) {
				r.join(2000, "secrets", fails(admission.Refused))
				advance(5 * time.Minute) // more of them are queued than may begin
				previous := r.Join("secrets", nil)
				if err := previous.Acquire(r.ctx); err != nil {
					t.Fatal(err)
				}
				if test.synced {
					previous.Release(admission.Outcome{Kind: admission.Synced})
					previous.Ended(0, test.outcome)
				} else {
					previous.Release(test.outcome)
				}
				previous.Leave()
				r.join(10, "secrets", fails(admission.Refused)) // from now on the newest member goes first
				advance(test.after)
				one := r.Join("secrets", nil)
				one.Continue(previous)
				began := time.Now()
				if err := one.Acquire(r.ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.least || took > test.most {
					t.Errorf("attempt: got it after %v, want it after %v to %v", took, test.least, test.most)
				}
				one.Release(admission.Outcome{Kind: admission.Synced})
				one.Leave()
			})
		})
	}
}
