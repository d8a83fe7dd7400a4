// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/reflector"
)

// An etcd that is restored from a copy makes all versions that are known ones
// from the future, which kube-apiserver waits for before it refuses them. All
// have the truth soon, and nobody who comes meanwhile waits for them.
func TestRollbackOfManyIsNoticedSoon(t *testing.T) {
	tests := map[string]struct {
		members int
		takes   time.Duration
		down    time.Duration // before the server is there again
		lists   bool          // there is no WatchList
		limit   time.Duration
	}{
		"1,000":                   {1000, usually, 0, false, 15 * time.Second},
		"1,000 after an outage":   {1000, usually, 20 * time.Second, false, 15 * time.Second},
		"1,000 without WatchList": {1000, usually, 0, true, 15 * time.Second},
		"10,000":                  {10_000, 10 * time.Millisecond, 0, false, time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.members > 1000 && clientGo {
				t.Skip("once is enough")
			}
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				how := taking(test.takes, well)
				if test.lists {
					how = refusingWatchList(how)
				}
				c.treatAll(how)
				all := append(c.comes(test.members/2, "secrets"), c.comes(test.members/2, "configmaps")...)
				after(time.Minute)
				if test.down > 0 {
					c.treatAll(says(errDown))
					c.cut(nil, nil)
					after(test.down)
					c.treatAll(how)
				}
				began := time.Now()
				c.restore(1000)
				awaited, others := c.newcomers(60, 500*time.Millisecond, "secrets", "configmaps")
				after(test.limit)
				c.within(awaited, soonAwaited, "new ones that are waited for")
				c.within(others, soon, "new ones that nobody waits for")
				c.fresh(all, began, test.limit, "those of before")
				wrong := 0
				for _, m := range c.members {
					if !m.right() {
						wrong++
					}
				}
				if wrong > 0 {
					t.Errorf("rolled-back state: got %d members without it, want it everywhere", wrong)
				}
				t.Logf("%d requests after it", len(c.requests(-1))-test.members)
			})
		})
	}
}

// refusingWatchList is a server that refuses WatchList as one does whose gate is
// off.
func refusingWatchList(how treatment) treatment {
	return func(call call) reply {
		r := how(call)
		if call.watchList {
			r.err = apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
		}
		return r
	}
}
