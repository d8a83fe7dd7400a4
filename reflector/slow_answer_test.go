// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// A server that needs longer than a minute for its first answer is waited for in
// the end; one that hangs is not given more than four minutes.
func TestSlowAnswersAreWaitedFor(t *testing.T) {
	tests := map[string]struct {
		takes time.Duration
		want  bool
	}{
		"50 s": {50 * time.Second, true}, "90 s": {90 * time.Second, true}, "3 min": {3 * time.Minute, true}, "never": {time.Hour, false},
	}
	for name, test := range tests {
		for how, lists := range map[string]bool{"WatchList": false, "list": true} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t, reflector.GateOptions{})
					f.takes(test.takes)
					source := listwatch.Source(&member{f, 0})
					if lists {
						source = listsOnlyMember{&member{f, 0}}
					}
					r := start(t, source, reflector.Options{Gate: f.gate})
					after(15 * time.Minute)
					if got := r.Status(); got.Synced != test.want {
						t.Errorf("status after 15 minutes: got %+v, want synced: %v", got, test.want)
					}
					if got := len(f.requests(-1)); !test.want && (got < 6 || got > 9) {
						t.Errorf("attempts: got %d in 15 minutes, want each second one after a minute, and the others after four in the end", got)
					}
				})
			})
		}
	}
}

type listsOnlyMember struct{ *member }

func (listsOnlyMember) IsWatchListSemanticsUnSupported() bool { return true }
