// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

// States that are not kept, and that were replaced long ago, are violations.
func TestStatesThatAreNotKept(t *testing.T) {
	writes := func(r *rig) {
		for range 20 {
			r.write()
		}
	}
	for name, test := range map[string]struct {
		rule string
		run  func(r *rig)
	}{
		"after a deletion": {"L1", func(r *rig) {
			writes(r)
			r.delete()
			time.Sleep(4 * fresh)
			r.get(3)
		}},
		"after an absence": {"L1", func(r *rig) {
			r.write()
			r.delete()
			writes(r)
			r.delete()
			r.fails(errAbsent)
			time.Sleep(4 * fresh)
			r.get(5)
		}},
		"an absence before many writes": {"L1", func(r *rig) {
			r.write()
			r.delete()
			r.write()
			time.Sleep(4 * fresh)
			writes(r)
			r.fails(errAbsent)
		}},
		"a deletion that Changes does not yield": {"S10", func(r *rig) {
			writes(r)
			r.delete()
			follower := r.Follow()
			follower.Yield(r.x, state(3), nil)
			time.Sleep(4 * fresh)
			follower.End()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			report := inBubble(t, limitsOf(test.rule), false, func(r *rig) {
				r.reference()
				test.run(r)
			})
			if !reports(report, test.rule) {
				t.Errorf("got %v, want a violation of %s", report.Violations, test.rule)
			}
		})
	}
}

func reports(report history.Report, rule string) bool {
	for _, v := range report.Violations {
		if v.Rule == rule {
			return true
		}
	}
	return false
}
