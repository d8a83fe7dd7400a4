// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

// rounds are how many were being opened in each of the next rounds of answers.
func (f *fleet) rounds(n int, takes time.Duration) (opening []int) {
	for range n {
		opening = append(opening, f.gate.Status().Opening)
		after(takes)
	}
	return opening
}

// The number that is opened at a time doubles with each round of answers, up to
// its bound.
func TestGateOpensMoreWithEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 20})
		f.takes(200 * time.Millisecond)
		f.start(200, "secrets")
		after(time.Millisecond)
		got := f.rounds(5, 200*time.Millisecond)
		for i, want := range []int{4, 8, 16, 20, 20} {
			if got[i] != want {
				t.Errorf("opening in each round: got %v, want 4, 8, 16, and 20 from then on", got)
				break
			}
		}
	})
}

// A server that is away is asked by one; up to half of what was too much for it the
// number doubles again, and then grows by one a round.
func TestGateFindsOutWhatAServerBears(t *testing.T) {
	for name, err := range map[string]error{"down": errDown} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{})
				f.takes(200 * time.Millisecond)
				f.start(32, "secrets")
				after(time.Second) // 32 at a time by now
				f.start(500, "secrets")
				after(100 * time.Millisecond)
				if got := f.gate.Status().Opening; got != 32 {
					t.Fatalf("opening: got %d, want 32", got)
				}
				f.breakStreams()
				f.answers(always(err))
				after(10 * time.Second) // which ends the 32, and begins some probes
				f.answers(always(nil))
				for f.gate.Status().Cause != nil {
					after(10 * time.Millisecond)
				}
				got := f.rounds(9, 200*time.Millisecond)
				for i, want := range []int{2, 4, 8, 16} {
					if got[i] != want {
						t.Errorf("opening in each round: got %v, want 2, 4, 8, 16", got)
						break
					}
				}
				for i := 4; i < 9; i++ {
					if grown := got[i] - got[i-1]; grown < 0 || grown > 2 {
						t.Errorf("opening in each round: got %v, want about one more in each after 16", got)
						break
					}
				}
			})
		})
	}
}

// What one bad object fails with is not taken for the server's being loaded.
func TestBadObjectDoesNotSlowTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.answers(func(id int) error {
			if id == 0 {
				return errDown
			}
			return nil
		})
		f.start(1, "secrets")
		for range 50 { // answers in between its failures
			f.start(1, "secrets")
			after(time.Second)
		}
		f.takes(200 * time.Millisecond)
		f.start(900, "secrets")
		before := len(f.requests(0))
		for last := 0; f.gate.Status().Queued > 50; after(200 * time.Millisecond) {
			now := f.gate.Status().Opening
			if now < last-1 { // its own turn comes and goes
				t.Fatalf("opening: got %d after %d, want no fewer because of the bad one", now, last)
			}
			if cause := f.gate.Status().Cause; cause != nil {
				t.Fatalf("cause: got %v, want the bad one's failures not taken for an outage", cause)
			}
			last = now
			f.rigs[0].Retry()
		}
		if got := len(f.requests(0)) - before; got == 0 {
			t.Error("the bad one was not asked for meanwhile")
		}
	})
}
