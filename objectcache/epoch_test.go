// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// The server was rolled back, and other data became immutable under the version of
// the data before. A new watch counted epochs from 0, so the change was not yielded.
func TestIssue8ChangeAcrossWatchesIsNotLost(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		r.seal("tls", "a")
		r.AddReference(namespace, "tls", "pod-1")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "at first", sub.seen(), "tls=a")
		r.server.Restore(before)
		r.seal("tls", "b")
		time.Sleep(2*time.Minute + time.Second)
		want(t, "other data, same version", sub.seen(), "tls=b")
		if got := r.mustGet("tls"); string(got.Data["password"]) != "b" {
			t.Errorf("Get: got %q, want b", got.Data["password"])
		}
	})
}

// A watch that had noticed a rollback was replaced by one that had not, and the same
// state was yielded twice.
func TestIssue8ChangeAcrossWatchesIsNotInvented(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		r.update("tls", "1")
		r.AddReference(namespace, "tls", "pod-1")
		sub := r.subscribe()
		defer func() { sub.stop() }()
		want(t, "at first", sub.seen(), "tls=1")
		r.server.Restore(before)
		r.seal("tls", "a")
		time.Sleep(time.Minute)
		want(t, "rolled back, then immutable", sub.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again", sub.seen())
		sub.stop()
		sub = r.subscribe()
		want(t, "another subscriber", sub.seen(), "tls=a")
		r.AddReference(namespace, "tls", "pod-2")
		want(t, "new owner", sub.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again for the owner", sub.seen())
	})
}

// A rollback that does not change an object is not a change of it.
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
		want(t, "at first", sub.seen(), "tls="+canary)
		r.server.Restore(before)
		time.Sleep(5 * time.Minute)
		want(t, "rolled back", sub.seen())
		r.update("tls", "new")
		want(t, "changed after the rollback", sub.seen(), "tls=new")
	})
}

// A second owner of a synced object got nothing until the object changed.
func TestIssue8ChangesForANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for name, change := range map[string][]func(*corev1.Secret){"mutable": nil, "immutable": {immutable}} {
			r.create(name, change...)
			r.AddReference(namespace, name, "pod-1")
			sub := r.subscribe()
			sub.seen()
			r.AddReference(namespace, name, "pod-2")
			want(t, "new owner", sub.seen(), name+"="+canary)
			r.AddReference(namespace, name, "pod-2")
			want(t, "same owner again", sub.seen())
			r.DeleteReference(namespace, name, "pod-1")
			time.Sleep(time.Hour)
			want(t, "owner gone, an hour later", sub.seen())
			sub.stop()
			r.DeleteReference(namespace, name, "pod-2")
			r.DeleteReference(namespace, name, "pod-2")
		}
		sub := r.subscribe()
		defer sub.stop()
		r.AddReference(namespace, "absent", "pod-1")
		want(t, "absent object", sub.seen(), "absent absent")
		r.AddReference(namespace, "absent", "pod-2")
		want(t, "new owner of an absent object", sub.seen(), "absent absent")
	})
}
