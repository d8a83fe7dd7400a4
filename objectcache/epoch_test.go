// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// seal gives a Secret a value and makes it immutable.
func (r *rig) seal(name, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	immutable(secret)
	if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.t.Fatalf("seal %s: %v", name, err)
	}
	synctest.Wait()
}

// The server was rolled back, and other content was sealed under the version
// that the predecessor had. A new run counted epochs from 0 again, so a follower
// took it for what it knew.
func TestIssue8ChangeAcrossRunsIsNotLost(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		before := r.server.Snapshot()
		r.seal("tls", "a")
		r.AddReference(namespace, "tls", "pod-1")
		f := r.follow()
		defer f.stop()
		want(t, "to begin with", f.seen(), "tls=a")
		r.server.Restore(before)
		r.seal("tls", "b")
		time.Sleep(2*time.Minute + time.Second)
		want(t, "other content under the same version", f.seen(), "tls=b")
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
		f := r.follow()
		defer func() { f.stop() }()
		want(t, "to begin with", f.seen(), "tls=1")
		r.server.Restore(before)
		r.seal("tls", "a")
		time.Sleep(time.Minute)
		want(t, "rolled back, and sealed", f.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again", f.seen())
		f.stop()
		f = r.follow()
		want(t, "another follower", f.seen(), "tls=a")
		r.AddReference(namespace, "tls", "pod-2")
		want(t, "for a new owner, once", f.seen(), "tls=a")
		time.Sleep(time.Hour)
		want(t, "read again for it", f.seen())
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
		f := r.follow()
		defer f.stop()
		want(t, "to begin with", f.seen(), "tls="+canary)
		r.server.Restore(before)
		time.Sleep(5 * time.Minute)
		want(t, "rolled back", f.seen())
		r.update("tls", "new")
		want(t, "changed since", f.seen(), "tls=new")
	})
}

// A second owner of a known object got nothing until the object changed.
func TestIssue8ChangesForANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for name, change := range map[string][]func(*corev1.Secret){"mutable": nil, "immutable": {immutable}} {
			r.create(name, change...)
			r.AddReference(namespace, name, "pod-1")
			f := r.follow()
			f.seen()
			r.AddReference(namespace, name, "pod-2")
			want(t, "a new owner", f.seen(), name+"="+canary)
			r.AddReference(namespace, name, "pod-2")
			want(t, "a known owner", f.seen())
			r.DeleteReference(namespace, name, "pod-1")
			time.Sleep(time.Hour)
			want(t, "an owner less, and time", f.seen())
			f.stop()
			r.DeleteReference(namespace, name, "pod-2")
			r.DeleteReference(namespace, name, "pod-2")
		}
		f := r.follow()
		defer f.stop()
		r.AddReference(namespace, "absent", "pod-1")
		r.AddReference(namespace, "absent", "pod-2")
		want(t, "an absent object", f.seen())
	})
}
