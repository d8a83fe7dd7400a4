// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// wantMissed checks the phase of an object, and that it is not updated since a time, give or take 0.3 s.
func (r *rig) wantMissed(when, name string, phase objectcache.Phase, since time.Time) {
	r.t.Helper()
	synctest.Wait()
	status, _ := r.Status(namespace, name)
	if got := status.NotUpdatedSince; status.Phase != phase || since.IsZero() != got.IsZero() || got.Sub(since).Abs() > 300*time.Millisecond {
		r.t.Errorf("%s: %s: got phase %s, not updated since %v, want %s and %v; %+v", when, name, status.Phase, got, phase, since, status)
	}
}

// In an outage the phase says what memory serves: the objects that were known, those that need no stream, an absence.
// Only for a new object there is nothing to serve.
func TestPhasesInAnOutage(t *testing.T) {
	faults := map[string]func(r *rig) (heal func()){
		"503": func(r *rig) func() {
			r.refuse(unavailable())
			return func() { r.refuse(nil) }
		},
		"403": func(r *rig) func() {
			r.refuse(forbidden())
			return func() { r.refuse(nil) }
		},
		"no answer": func(r *rig) func() { return r.holdBack("watch", "list", "get") },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				for name, change := range map[string][]func(*corev1.Secret){"tls": nil, "sealed": {immutable}} {
					r.create(name, change...)
				}
				for _, name := range []string{"tls", "sealed", "absent"} {
					r.AddReference(namespace, name, "pod")
				}
				time.Sleep(time.Minute)
				r.AddReference(namespace, "sealed", "another pod") // it is read once more, without a stream
				time.Sleep(time.Minute)
				heal := fault(r)
				r.server.CloseStreams(nil)
				cut := time.Now()
				r.AddReference(namespace, "new", "pod")
				for range 3 {
					time.Sleep(70 * time.Second)
					r.wantMissed("in the outage", "tls", objectcache.PhaseNotUpdated, cut)
					r.wantMissed("in the outage", "absent", objectcache.PhaseAbsent, cut)
					r.wantMissed("in the outage", "sealed", objectcache.PhaseServing, time.Time{})
					r.wantMissed("in the outage", "new", objectcache.PhaseFailing, time.Time{})
				}
				heal()
				time.Sleep(2 * time.Minute)
				for _, name := range []string{"tls", "sealed"} {
					r.wantMissed("after it", name, objectcache.PhaseServing, time.Time{})
				}
				for _, name := range []string{"absent", "new"} {
					r.wantMissed("after it", name, objectcache.PhaseAbsent, time.Time{})
				}
			})
		})
	}
}

// Streams that end regularly, one by one or all at once, make no object seem not updated.
func TestRegularEndsAreNoNews(t *testing.T) {
	inStorm(t, objectcache.GateOptions{}, func(t *testing.T, s *storm) {
		names := s.references(200, "tls")
		time.Sleep(20 * time.Second)
		missed := 0
		for i := range 400 {
			switch {
			case i == 200:
				s.server.CloseStreams(nil)
			case i%2 == 0:
				name := names[i%len(names)]
				s.server.CloseStreams(func(request apiserver.Request) bool { return request.Name == name })
			}
			time.Sleep(50 * time.Millisecond)
			missed += s.countStatus(func(o objectcache.Status) bool { return !isUpdated(o) })
		}
		if missed > 0 {
			t.Errorf("objects that seemed not to be updated, in 400 looks: got %d, want none", missed)
		}
	})
}

// An object without a stream is not updated from the begin of the read on that fails or hangs, until one succeeds.
func TestNotUpdatedWithoutAStream(t *testing.T) {
	for name, hangs := range map[string]bool{"refused": false, "no answer": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{TTL: time.Minute}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.AddReference(namespace, "absent", "pod")
				r.wantMissed("before a Get", "tls", objectcache.PhasePending, time.Time{})
				r.mustGet("tls")
				_, _ = r.get("absent", time.Second)
				r.wantMissed("read", "absent", objectcache.PhaseAbsent, time.Time{})
				heal := func() { r.refuse(nil) }
				if r.refuse(unavailable()); hangs {
					heal = r.holdBack("get")
				}
				time.Sleep(10 * time.Minute)
				r.wantMissed("the TTL is over", "tls", objectcache.PhaseServing, time.Time{})
				r.wantMissed("the TTL is over", "absent", objectcache.PhasePending, time.Time{})
				asked := time.Now()
				for range 3 {
					_, _ = r.get("tls", 100*time.Millisecond)
					_, _ = r.get("absent", 100*time.Millisecond)
					time.Sleep(20 * time.Second)
					r.wantMissed("asked", "tls", objectcache.PhaseNotUpdated, asked)
					r.wantMissed("asked", "absent", objectcache.PhaseFailing, asked)
				}
				heal()
				r.refuse(nil)
				time.Sleep(30 * time.Second)
				r.wantMissed("after it", "tls", objectcache.PhaseServing, time.Time{})
				if status, _ := r.Status(namespace, "absent"); status.Phase != objectcache.PhasePending {
					t.Errorf("absent: got %+v, want Pending: its TTL is over", status)
				}
			})
		})
	}
}

// ChangedAt is when the state in memory last changed, not when it was last read.
func TestChangedAt(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Hour, ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		var last time.Time
		want := func(when string, changed bool) {
			t.Helper()
			synctest.Wait()
			if changed {
				last = time.Now()
			}
			status, _ := r.Status(namespace, "tls")
			if status.ChangedAt.Sub(last).Abs() > time.Millisecond {
				t.Errorf("%s: got changed at %v, want %v", when, status.ChangedAt, last)
			}
			time.Sleep(10 * time.Minute)
		}
		r.AddReference(namespace, "tls", "pod")
		want("the first state, absent", true)
		r.server.CloseStreams(nil)
		want("the absence is read again", false)
		r.create("tls")
		want("created", true)
		r.server.CloseStreams(nil)
		want("read again", false)
		r.AddReference(namespace, "tls", "another")
		if _, err := r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{Live: true}); err != nil {
			t.Error(err)
		}
		want("a live Get", false)
		r.update("tls", "new")
		want("changed", true)
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		want("an outage", false)
		r.refuse(nil)
		want("after it", false)
		r.seal("tls", "sealed")
		want("immutable", true)
		want("rechecked", false)
		r.remove("tls")
		r.create("tls", immutable)
		before := time.Now()
		time.Sleep(2 * time.Minute)
		status, _ := r.Status(namespace, "tls")
		if last = status.ChangedAt; !last.After(before) {
			t.Errorf("created again: got changed at %v, want it after %v", last, before)
		}
		want("rechecked", false)
		time.Sleep(2 * time.Hour)
		if status, _ := r.Status(namespace, "tls"); status.Phase != objectcache.PhaseIdle || !status.ChangedAt.IsZero() {
			t.Errorf("idle: got %+v, want that nothing is known", status)
		}
	})
}

// Status and Get agree on how old a state may be.
func TestStatusOfAnOldObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 2 * time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		check := func(when string, want bool) {
			t.Helper()
			_, err := r.get("tls", time.Millisecond)
			if status, _ := r.Status(namespace, "tls"); status.Synced != want || (err == nil) != want {
				t.Errorf("%s: got %v from Get and synced %t, want %t", when, err, status.Synced, want)
			}
		}
		time.Sleep(time.Minute)
		check("after a minute", true)
		time.Sleep(time.Hour)
		check("after an hour", false)
		r.refuse(nil)
		time.Sleep(time.Minute)
		check("in the end", true)
	})
}
