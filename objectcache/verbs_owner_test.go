// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/testmain"
)

// A new owner of a polled object reads the newest state with Live, whether lists or GETs work, also beside many that
// are polled.
func TestNewOwnerOfAPolledObject(t *testing.T) {
	testmain.Long(t)
	for name, fault := range map[string]struct{ list, watch string }{
		"lists work": {"", "403"}, "GETs work, 403": {"403", "403"}, "GETs work, 500": {"500", "500"},
	} {
		for _, n := range []int{1, 1000} {
			t.Run(fmt.Sprintf("%s, %d objects", name, n), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					testNewOwnerOfAPolledObject(t, r, fault.list, fault.watch, n)
				})
			})
		}
	}
}

func testNewOwnerOfAPolledObject(t *testing.T, r *rig, list, watch string, n int) {
	names := r.known("tls", n)
	r.failVerbs(list, watch, all)
	r.server.CloseStreams(nil)
	time.Sleep(5 * time.Minute)
	if got := r.count(objectcache.StreamPolled, names); got != n {
		t.Fatalf("polled: got %d of %d objects", got, n)
	}
	for i := range 20 {
		time.Sleep(1700 * time.Millisecond)
		name, value := names[i*7%n], fmt.Sprint(i)
		r.update(name, value)
		r.AddReference(namespace, name, types.UID(fmt.Sprint("new-", i)))
		if got, err := r.demandFor(5*time.Second, name, objectcache.GetOptions{Live: true}); err != nil || valueOf(got) != value {
			t.Errorf("owner %d: got %q, %v, want %q", i, valueOf(got), err, value)
		}
	}
}

// The reads of an object that is polled are no openings of streams: only the trials are.
func TestPollsAreNoOpens(t *testing.T) {
	for name, list := range map[string]string{"lists": "", "GETs": "500"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.known("tls", 1)
				r.failVerbs(list, "500", all)
				r.server.CloseStreams(nil)
				time.Sleep(10 * time.Minute)
				before := opens(r.Stats())
				time.Sleep(time.Hour)
				if got := opens(r.Stats()) - before; got == 0 || got > 10 {
					t.Errorf("got %d openings in an hour, want those of the trials", got)
				}
			})
		})
	}
}

// opens returns how many streams were asked for.
func opens(stats objectcache.Stats) (n uint64) {
	for _, count := range stats.Opens {
		n += count
	}
	return n
}
