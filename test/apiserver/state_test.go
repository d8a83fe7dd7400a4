// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// TestRestore checks that objects and versions go back, streams end, and versions are assigned again. It runs in
// virtual time, because client-go retries after ResourceVersionTooLarge.
func TestRestore(t *testing.T) { synctest.Test(t, testRestore) }

func testRestore(t *testing.T) {
	f := newFixture(t, Options{InMemory: true})
	first := f.createSecret(newSecret("a"))
	state := f.Snapshot()
	if state.ResourceVersion() != first.ResourceVersion {
		t.Errorf("got state at %s, want %s", state.ResourceVersion(), first.ResourceVersion)
	}
	second := f.updateSecret(first, "lost")
	f.createSecret(newSecret("lost"))
	w := f.watchSecrets(watchList())
	for _, want := range []watch.EventType{watch.Added, watch.Added, watch.Bookmark} {
		expect(t, w, want)
	}
	version, restored := f.ResourceVersion(), time.Now()
	f.Restore(state)
	if event, ok := <-w.ResultChan(); ok || time.Since(restored) > 0 {
		t.Errorf("got %v after %v, want the stream to end at once", event, time.Since(restored))
	}
	if got := f.listSecrets(metav1.ListOptions{}); len(got.Items) != 1 || string(got.Items[0].Data["key"]) != "value of a" || got.ResourceVersion != first.ResourceVersion {
		t.Errorf("got %v, want the restored state at version %s", got, first.ResourceVersion)
	}
	if _, err := f.client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{ResourceVersion: version}); !isTooLarge(err) {
		t.Errorf("list at a version before the restore: got %v, want ResourceVersionTooLarge", err)
	}
	resume := watchList()
	resume.ResourceVersion = version
	event := expect(t, f.watchSecrets(resume), watch.Error)
	if err := apierrors.FromObject(event.Object); !isTooLarge(err) {
		t.Errorf("WatchList at a version before the restore: got %v, want ResourceVersionTooLarge", err)
	}
	if again := f.updateSecret(first, "again"); again.ResourceVersion != second.ResourceVersion {
		t.Errorf("got version %s, want %s assigned again", again.ResourceVersion, second.ResourceVersion)
	}
	f.Restore(state) // a state can be restored more than once
	if got := f.listSecrets(metav1.ListOptions{}); len(got.Items) != 1 || string(got.Items[0].Data["key"]) != "value of a" {
		t.Errorf("got %v, want the restored state", got.Items)
	}
}

// After a restore that keeps a stream, the stream is silent until the versions have reached the newest one before.
func TestRestoreKeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		first := f.createSecret(newSecret("a"))
		state := f.Snapshot()
		f.updateSecret(f.updateSecret(first, "lost"), "lost too")
		options := named("a", metav1.ListOptions{ResourceVersion: first.ResourceVersion, AllowWatchBookmarks: true})
		kept, other := f.watchSecrets(options), f.watchSecrets(named("b", options))
		expect(t, kept, watch.Modified)
		expect(t, kept, watch.Modified)
		f.RestoreKeeping(state, func(r Request) bool { return r.Name == "a" })
		if _, ok := <-other.ResultChan(); ok {
			t.Error("the other stream is open")
		}
		second := f.updateSecret(first, "2")
		time.Sleep(3 * time.Minute) // bookmarks of this version
		third := f.updateSecret(f.updateSecret(second, "hidden"), "3")
		if got := expect(t, kept, watch.Modified).Object.(*corev1.Secret).ResourceVersion; got != third.ResourceVersion {
			t.Errorf("got version %s, want %s, the first one that is new", got, third.ResourceVersion)
		}
	})
}

func TestCompact(t *testing.T) {
	f := newFixture(t, Options{})
	first := f.createSecret(newSecret("a"))
	f.updateSecret(first, "new")
	open := f.watchSecrets(metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
	f.Compact()
	event := expect(t, f.watchSecrets(metav1.ListOptions{ResourceVersion: first.ResourceVersion}), watch.Error)
	if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) || !strings.Contains(err.Error(), "too old resource version: "+first.ResourceVersion) {
		t.Errorf("got %v, want Expired", err)
	}
	current := f.watchSecrets(metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
	f.createSecret(newSecret("b"))
	expect(t, open, watch.Added)
	expect(t, current, watch.Added)
}
