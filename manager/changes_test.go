// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// changingStore tells of one change, that of an object with those owners.
type changingStore struct {
	noStore

	owners []types.UID
}

func (s changingStore) Changes(context.Context) iter.Seq[objectcache.Change[*corev1.Secret]] {
	return func(yield func(objectcache.Change[*corev1.Secret]) bool) {
		yield(objectcache.Change[*corev1.Secret]{Key: key("a"), Deleted: true, Owners: s.owners})
	}
}

// A change tells of the owners as they were declared last, be their references
// new or not. One that has gone meanwhile is left out.
func TestChangesTellOfOwnersAsDeclaredLast(t *testing.T) {
	m := newManager(t, changingStore{owners: []types.UID{"gone", "1", "gw", "never"}}, manager.PodSecrets)
	gateway := manager.Owner{Kind: "Gateway", Namespace: "default", Name: "gateway", UID: "gw"}
	renamed := manager.Owner{Kind: "Gateway", Namespace: "other", Name: "renamed", UID: "gw"}
	m.RegisterPod(podOf("1", "a"))
	m.RegisterPod(podOf("gone", "a"))
	m.UnregisterPod(podOf("gone"))
	m.SetReferences(gateway, key("a"))
	m.SetReferences(renamed, key("a"))
	want := []manager.Owner{{Kind: "Pod", Namespace: "default", Name: "pod-1", UID: "1"}, renamed}
	changes := 0
	for change := range m.Changes(t.Context()) {
		changes++
		if change.Key != key("a") || !change.Deleted || !slices.Equal(change.Owners, want) {
			t.Errorf("change: got %+v, want that a is deleted, for %+v", change, want)
		}
	}
	if changes != 1 {
		t.Errorf("changes: got %d, want 1", changes)
	}
}
