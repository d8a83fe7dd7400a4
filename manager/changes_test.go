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

// changingStore yields one change, of an object with the given owners.
type changingStore struct {
	noStore

	owners []types.UID
}

func (s changingStore) Changes(context.Context) iter.Seq2[objectcache.Change[*corev1.Secret], []types.UID] {
	return func(yield func(objectcache.Change[*corev1.Secret], []types.UID) bool) {
		yield(objectcache.Change[*corev1.Secret]{Key: key("a"), Deleted: true}, s.owners)
	}
}

// Changes yields the owners as they were declared last, whether or not their
// references are new. It omits an owner that was removed.
func TestChangesYieldOwnersAsDeclaredLast(t *testing.T) {
	m := newManager(t, changingStore{owners: []types.UID{"gone", "1", "gw", "never"}}, manager.VisitPodSecretNames)
	gateway := manager.Owner{Kind: "Gateway", Namespace: "default", Name: "gateway", UID: "gw"}
	renamed := manager.Owner{Kind: "Gateway", Namespace: "other", Name: "renamed", UID: "gw"}
	m.RegisterPod(podOf("1", "a"))
	m.RegisterPod(podOf("gone", "a"))
	m.UnregisterPod(podOf("gone"))
	m.SetReferences(gateway, key("a"))
	m.SetReferences(renamed, key("a"))
	want := []manager.Owner{{Kind: "Pod", Namespace: "default", Name: "pod-1", UID: "1"}, renamed}
	changes := 0
	for change, owners := range m.Changes(t.Context()) {
		changes++
		if change.Key != key("a") || !change.Deleted || !slices.Equal(owners, want) {
			t.Errorf("change: got %+v for %+v, want that a is deleted, for %+v", change, owners, want)
		}
	}
	if changes != 1 {
		t.Errorf("changes: got %d, want 1", changes)
	}
}
