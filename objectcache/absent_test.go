// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// Stats counts the objects that are referenced and, as last known, absent.
func TestStatsCountAbsentObjects(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				want := func(when string, absent int) {
					t.Helper()
					for _, name := range []string{"tls", "ca", "other"} {
						_, _ = r.get(name, time.Minute)
					}
					synctest.Wait()
					if got := r.Stats().Absent; got != absent {
						t.Errorf("%s: got %d absent objects, want %d", when, got, absent)
					}
				}
				want("no reference", 0)
				r.create("other")
				for _, name := range []string{"tls", "ca", "other"} {
					r.AddReference(namespace, name, "pod")
				}
				want("referenced", 2)
				r.create("tls")
				time.Sleep(time.Minute + time.Second) // longer than the TTL
				want("one created", 1)
				r.remove("tls")
				time.Sleep(time.Minute + time.Second)
				want("deleted", 2)
				r.refuse(unavailable())
				r.server.CloseStreams(nil)
				time.Sleep(time.Minute + time.Second)
				want("the server is away", 2)
				r.DeleteReference(namespace, "tls", "pod")
				r.DeleteReference(namespace, "ca", "pod")
				want("no reference to absent ones", 0)
			})
		})
	}
}

// An object whose state is not known is not absent.
func TestStatsCountUnknownObjectsNotAsAbsent(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{"watch": nil, "TTL": objectcache.TTLOptions{}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				release := r.holdBack("watch", "list", "get")
				defer release()
				r.AddReference(namespace, "tls", "pod")
				_, _ = r.get("tls", time.Second)
				if got := r.Stats().Absent; got != 0 {
					t.Errorf("got %d absent objects, want none", got)
				}
			})
		})
	}
}

// The status of an object without a stream has the time of its next read. LastContact is
// the time of the last one that was answered.
func TestStatusNextRead(t *testing.T) {
	recheck := objectcache.WatchOptions{ImmutableRecheck: 10 * time.Minute}
	tests := map[string]struct {
		options     objectcache.WatchOptions
		phase       objectcache.Phase
		least, most time.Duration // until the next read; 0 if none is planned
	}{
		"watched":            {recheck, servingNamed, 0, 0},
		"immutable":          {recheck, servingImmutable, 10 * time.Minute, 20 * time.Minute},
		"immutable, for all": {objectcache.WatchOptions{ImmutableRecheck: -1}, servingImmutable, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, func(t *testing.T, r *rig) {
				if test.phase == servingImmutable {
					r.create("tls", immutable)
				} else {
					r.create("tls")
				}
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				if got := r.phase("tls"); got != test.phase {
					t.Fatalf("phase: got %s, want %s", got, test.phase)
				}
				status, _ := r.Status(namespace, "tls")
				if test.most == 0 {
					if !status.NextRead.IsZero() {
						t.Errorf("got a read in %v, want none", time.Until(status.NextRead))
					}
					return
				}
				if left := time.Until(status.NextRead); left < test.least || left > test.most {
					t.Errorf("got the next read in %v, want it in %v to %v", left, test.least, test.most)
				}
				reads := r.reads("tls")
				time.Sleep(time.Until(status.NextRead) - time.Second)
				if got := r.reads("tls"); got != reads {
					t.Errorf("before its time: got %d reads, want none", got-reads)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				next, _ := r.Status(namespace, "tls")
				if got := r.reads("tls"); got == reads || !next.LastContact.After(status.LastContact) || !next.NextRead.After(status.NextRead) {
					t.Errorf("afterwards: got %d reads and %+v, want a read, and a later one", got-reads, next)
				}
			})
		})
	}
}

// A recheck that fails shows in the status: the state is older than it should be.
func TestStatusOfAFailedRecheck(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		before, _ := r.Status(namespace, "tls")
		r.refuse(forbidden())
		time.Sleep(5 * time.Minute)
		got, _ := r.Status(namespace, "tls")
		if got.Failures == 0 || !apierrors.IsForbidden(got.LastError) || got.LastErrorTime.Before(before.NextRead) {
			t.Errorf("got %+v, want failures and their cause", got)
		}
		if !got.LastContact.Equal(before.LastContact) || !got.NextRead.After(time.Now()) {
			t.Errorf("got %+v, want the time of the read that succeeded, and of the next one", got)
		}
		r.refuse(nil)
		time.Sleep(2*time.Minute + time.Second)
		if got, _ := r.Status(namespace, "tls"); got.Failures != 0 || !got.LastContact.After(before.LastContact) {
			t.Errorf("afterwards: got %+v, want no failure", got)
		}
	})
}
