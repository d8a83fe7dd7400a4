// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// The server was rolled back, and other content was sealed under the version
// that the predecessor had. A new run counted epochs from 0 again, so a follower
// took it for what it knew.
func TestIssue8ChangeAcrossRunsIsNotLost(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		r.seal("tls", "a")
		r.AddReference(namespace, "tls", "pod-1")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "to begin with", sub.seen(), "tls=a")
		r.server.Restore(before)
		r.seal("tls", "b")
		time.Sleep(2*time.Minute + time.Second)
		want(t, "other content under the same version", sub.seen(), "tls=b")
		if got := r.mustGet("tls"); string(got.Data["password"]) != "b" {
			t.Errorf("Get: got %q, want b", got.Data["password"])
		}
	})
}

// A run that had seen a rollback was followed by one that had not: a follower
// got the same state twice.
func TestIssue8ChangeAcrossRunsIsNotInvented(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		r.update("tls", "1")
		r.AddReference(namespace, "tls", "pod-1")
		sub := r.subscribe()
		defer func() { sub.stop() }()
		want(t, "to begin with", sub.seen(), "tls=1")
		r.server.Restore(before)
		r.seal("tls", "a")
		time.Sleep(time.Minute)
		want(t, "rolled back, and sealed", sub.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again", sub.seen())
		sub.stop()
		sub = r.subscribe()
		want(t, "another follower", sub.seen(), "tls=a")
		r.AddReference(namespace, "tls", "pod-2")
		want(t, "for a new owner, once", sub.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again for it", sub.seen())
	})
}

// A rollback that brings back what is held is no change of it.
func TestIssue8RollbackThatChangesNothing(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		for range 5 {
			r.create("other-" + r.server.ResourceVersion())
		}
		r.AddReference(namespace, "tls", "pod")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "to begin with", sub.seen(), "tls="+canary)
		r.server.Restore(before)
		time.Sleep(5 * time.Minute)
		want(t, "rolled back", sub.seen())
		r.update("tls", "new")
		want(t, "changed since", sub.seen(), "tls=new")
	})
}

// A second owner of a known object got nothing until the object changed.
func TestIssue8ChangesForANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for name, change := range map[string][]func(*corev1.Secret){"mutable": nil, "immutable": {immutable}} {
			r.create(name, change...)
			r.AddReference(namespace, name, "pod-1")
			sub := r.subscribe()
			sub.seen()
			r.AddReference(namespace, name, "pod-2")
			want(t, "a new owner", sub.seen(), name+"="+canary)
			r.AddReference(namespace, name, "pod-2")
			want(t, "a known owner", sub.seen())
			r.DeleteReference(namespace, name, "pod-1")
			time.Sleep(time.Hour)
			want(t, "an owner less, and time", sub.seen())
			sub.stop()
			r.DeleteReference(namespace, name, "pod-2")
			r.DeleteReference(namespace, name, "pod-2")
		}
		sub := r.subscribe()
		defer sub.stop()
		r.AddReference(namespace, "absent", "pod-1")
		r.AddReference(namespace, "absent", "pod-2")
		want(t, "an absent object", sub.seen())
	})
}
