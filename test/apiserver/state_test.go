// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An etcd restored from a copy: contents and versions go back, streams end, versions are given out again.
// Clients retry what is too large, as they are told to: hence the virtual time.
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
	seen := f.ResourceVersion()
	f.Restore(state)
	if event, ok := <-w.ResultChan(); ok {
		t.Errorf("got %v, want the stream to end", event)
	}
	if got := f.page(metav1.ListOptions{}); len(got.Items) != 1 || string(got.Items[0].Data["key"]) != "value of a" || got.ResourceVersion != first.ResourceVersion {
		t.Errorf("got %v, want the state of before at version %s", got, first.ResourceVersion)
	}
	if _, err := f.client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{ResourceVersion: seen}); !isTooLarge(err) {
		t.Errorf("got %v, want a version seen before to be of the future", err)
	}
	resume := watchList()
	resume.ResourceVersion = seen
	event := expect(t, f.watchSecrets(resume), watch.Error)
	if err := apierrors.FromObject(event.Object); !isTooLarge(err) {
		t.Errorf("got %v, want a WatchList at it to be refused", err)
	}
	if again := f.updateSecret(first, "again"); again.ResourceVersion != second.ResourceVersion {
		t.Errorf("got version %s, want %s given out again", again.ResourceVersion, second.ResourceVersion)
	}
	f.Restore(state) // a state can be restored any number of times
	if got := f.page(metav1.ListOptions{}); len(got.Items) != 1 || string(got.Items[0].Data["key"]) != "value of a" {
		t.Errorf("got %v, want the state of before once more", got.Items)
	}
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
