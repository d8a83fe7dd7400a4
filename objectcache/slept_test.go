// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/slept"
	"github.com/refwatch/refwatch/objectcache"
)

// suspend suspends the machine: the monotonic clock, and with it the time of the bubble, stands still.
func (r *rig) suspend(lasted time.Duration) { r.t.Cleanup(slept.Fake(lasted)) }

// asked returns the number of requests so far.
func (r *rig) asked() int {
	synctest.Wait()
	return len(r.server.Requests())
}

// age returns the age of the state of an object by its status.
func (r *rig) age(name string) time.Duration {
	status, _ := r.Status(namespace, name)
	return time.Since(status.LastContact)
}

// ages are the strategies that bound the age of a state of at most six minutes.
var ages = map[string]objectcache.StoreOptions{
	"watch":        objectcache.WatchOptions{MaxStaleness: 6 * time.Minute},
	"TTL":          objectcache.TTLOptions{TTL: 6 * time.Minute},
	"TTL, bounded": objectcache.TTLOptions{TTL: time.Hour, MaxStaleness: 6 * time.Minute},
}

// A state that was fresh when the machine was suspended is as old as the sleep when it wakes up. A Get reads the object
// again, and then the state is young.
func TestAgeCountsASleep(t *testing.T) {
	for name, options := range ages {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.referenced("tls")
				r.mustGet("tls")
				time.Sleep(4*time.Minute + 10*time.Second)
				before := r.age("tls")
				r.suspend(time.Minute)
				reads := r.asked()
				r.within("tls", time.Nanosecond, r.mustGet("tls").UID)
				if got := r.asked(); got != reads {
					t.Errorf("reads after a minute: got %d, want none", got-reads)
				}
				r.suspend(8 * time.Hour)
				if got, want := r.age("tls"), before+8*time.Hour+time.Minute; got.Round(time.Second) != want.Round(time.Second) {
					t.Errorf("age after the sleeps: got %v, want %v", got, want)
				}
				r.mustGet("tls")
				if got := r.asked(); got <= reads {
					t.Error("Get after the sleep: got no read, want one")
				}
				if got := r.age("tls"); got > 10*time.Second {
					t.Errorf("age after the read: got %v, want seconds", got)
				}
				reads = r.asked()
				r.mustGet("tls")
				if got := r.asked(); got != reads {
					t.Errorf("reads of the next Get: got %d, want none", got-reads)
				}
			})
		})
	}
}

// While the server cannot be reached after a sleep, no Get returns a state that is older than the bound.
func TestStaleAfterASleep(t *testing.T) {
	for name, options := range ages {
		if name == "TTL" {
			continue // it has no bound in an outage
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.referenced("tls")
				r.mustGet("tls")
				time.Sleep(4*time.Minute + 10*time.Second)
				r.refuse(unavailable())
				r.server.CloseStreams(nil)
				r.mustGet("tls")
				r.suspend(8 * time.Hour)
				_, err := r.get("tls", 10*time.Second)
				if !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, objectcache.ErrStale) || !apierrors.IsServiceUnavailable(err) {
					t.Errorf("got %v, want ErrNotSynced, ErrStale and the cause", err)
				}
				if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrStale) {
					t.Errorf("TryGet: got %v, want ErrStale", err)
				}
				r.refuse(nil)
				r.mustGetWithin("tls", time.Minute)
			})
		})
	}
}

// GetOptions.MaxStaleness counts a sleep; a Get without a bound does not look at it.
func TestDemandCountsASleep(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.mustGet("tls")
		time.Sleep(time.Second)
		r.suspend(time.Hour)
		reads := r.asked()
		r.within("tls", time.Nanosecond, r.mustGet("tls").UID)
		if _, err := r.demand("tls", objectcache.GetOptions{MaxStaleness: 2 * time.Hour}); err != nil || r.asked() != reads {
			t.Errorf("a bound above the sleep: got error %v and %d reads, want neither", err, r.asked()-reads)
		}
		if _, err := r.demand("tls", objectcache.GetOptions{MaxStaleness: time.Minute}); err != nil || r.asked() == reads {
			t.Errorf("a bound below the sleep: got error %v and %d reads, want one", err, r.asked()-reads)
		}
	})
}

// What arrives after a sleep is young, also if nobody has looked at an age since.
func TestEventAfterASleepIsYoung(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 6 * time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.mustGet("tls")
		time.Sleep(time.Second)
		r.suspend(8 * time.Hour)
		time.Sleep(time.Second)
		r.update("tls", "new")
		time.Sleep(time.Second)
		if got := r.age("tls"); got > 2*time.Second {
			t.Errorf("age: got %v, want a second", got)
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("opens: got %d, want 1", got)
		}
	})
}
