// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// deniedBetween is a store whose owners of a change have lost their reference when the change is yielded.
type deniedBetween struct {
	noStore

	between func()
}

func (s *deniedBetween) Changes(context.Context) iter.Seq2[objectcache.Change[*corev1.Secret], []types.UID] {
	return func(yield func(objectcache.Change[*corev1.Secret], []types.UID) bool) {
		s.between()
		yield(objectcache.Change[*corev1.Secret]{Key: key("tls"), Object: &corev1.Secret{}}, []types.UID{"1", "2"})
	}
}

// Changes does not yield an owner whose reference was denied, or deleted, after the store had named it. Such an owner
// may have other references.
func TestChangesWithoutDeniedOwners(t *testing.T) {
	web, attacker := manager.Owner{Name: "web", UID: "1"}, manager.Owner{Name: "attacker", UID: "2"}
	for name, between := range map[string]func(*manager.Manager[*corev1.Secret]){
		"denied": func(m *manager.Manager[*corev1.Secret]) {
			m.SetReferencePolicy(func(owner manager.Owner, _ types.NamespacedName) error {
				if owner == attacker {
					return errNotGranted
				}
				return nil
			})
		},
		"deleted": func(m *manager.Manager[*corev1.Secret]) { m.SetReferences(attacker, key("other")) },
	} {
		t.Run(name, func(t *testing.T) {
			store := &deniedBetween{}
			m := newManager(t, store, nil)
			m.SetReferences(web, key("tls"))
			m.SetReferences(attacker, key("tls"))
			store.between = func() { between(m) }
			for _, owners := range m.Changes(t.Context()) {
				if len(owners) != 1 || owners[0] != web {
					t.Errorf("got owners %v, want %v alone", owners, web)
				}
			}
		})
	}
}
