// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Restore brings back objects, versions and deleted objects, more than once. Later writes succeed.
func testSnapshot(t *testing.T, c *Cluster) {
	maps := Client(t, c.Admin()).CoreV1().ConfigMaps("default")
	before := put(t, c, "kept", "before")
	put(t, c, "deleted", "before")
	snapshot, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, round := range []string{"first", "second"} {
		put(t, c, "kept", "after")
		put(t, c, "late-"+round, "after")
		if err := maps.Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		after := put(t, c, "kept", "later")

		if err := c.Restore(t.Context(), snapshot); err != nil {
			t.Fatal(err)
		}
		got, err := maps.Get(t.Context(), "kept", metav1.GetOptions{})
		if err != nil || got.ResourceVersion != before.ResourceVersion || got.Data["value"] != "before" {
			t.Errorf("%s: got %v and %v, want %v", round, got, err, before)
		}
		if _, err := maps.Get(t.Context(), "deleted", metav1.GetOptions{}); err != nil {
			t.Errorf("%s: deleted object: got error %v, want it back", round, err)
		}
		if _, err := maps.Get(t.Context(), "late-"+round, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: object created after the snapshot: got %v, want not found", round, err)
		}
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || version(t, list.ResourceVersion) >= version(t, after.ResourceVersion) {
			t.Errorf("%s: got version %s and %v, want less than %s", round, list.ResourceVersion, err, after.ResourceVersion)
		}
	}
}

func version(t *testing.T, version string) int {
	t.Helper()
	number, err := strconv.Atoi(version)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// A snapshot has all writes that were acknowledged before it, and taking it loses no write.
func testSnapshotWhileWriting(t *testing.T, c *Cluster) {
	maps := Client(t, c.Admin()).CoreV1().ConfigMaps("default")
	ctx, cancel := context.WithCancel(t.Context())
	last, written := make(chan int, 1), make(chan struct{})
	put(t, c, "written", "0")
	go func() {
		defer close(last)
		for n := 1; ; n++ {
			object, err := maps.Get(ctx, "written", metav1.GetOptions{})
			if err == nil {
				object.Data["value"] = strconv.Itoa(n)
				_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
			}
			if err != nil {
				last <- n - 1
				return
			}
			if n == 10 {
				close(written)
			}
		}
	}()
	<-written
	snapshot, err := c.Snapshot(t.Context())
	cancel()
	end := receive(t, last)
	if err != nil {
		t.Fatal(err)
	}
	got := func() int {
		object, err := maps.Get(t.Context(), "written", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return version(t, object.Data["value"])
	}
	if now := got(); now < end {
		t.Errorf("after the snapshot: got value %d, want %d or one more", now, end)
	}
	if err := c.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	if now := got(); now < 10 || now > end+1 {
		t.Errorf("restored: got value %d, want between 10 and %d", now, end+1)
	}
}

func TestSnapshotErrors(t *testing.T) {
	c := &Cluster{dir: t.TempDir(), Etcd: newProcess("etcd", t.TempDir(), "", nil, nil)}
	if _, err := c.Snapshot(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("while etcd is down: got %v, want %v", err, errNotRunning)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("context has ended: got %v, want %v", err, context.Canceled)
	}
}
