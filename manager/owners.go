// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Owners yields every registered owner, sorted by kind, namespace, name and UID: pods, and
// also an owner whose references are all denied. These are the owners at the moment when
// the loop begins. No lock is held while its body runs.
func (m *Manager[T]) Owners() iter.Seq[Owner] {
	return func(yield func(Owner) bool) {
		m.mu.Lock()
		owners := make([]Owner, 0, len(m.owners.byID))
		for _, registration := range m.owners.byID {
			owners = append(owners, registration.owner)
		}
		m.mu.Unlock()
		slices.SortFunc(owners, compareOwners)
		for _, owner := range owners {
			if !yield(owner) {
				return
			}
		}
	}
}

func compareOwners(a, b Owner) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// References returns the keys of the objects that an owner references, without those that
// the [ReferencePolicy] denies, sorted by namespace and name, and none if the owner is not
// registered. The owner is identified as for SetReferences, see [Owner]: these references,
// and the denied ones, are what SetReferences without keys would delete. The caller may
// change the slice.
func (m *Manager[T]) References(owner Owner) []types.NamespacedName {
	m.mu.Lock()
	var keys []types.NamespacedName
	for _, id := range m.owners.matching(owner) {
		keys = append(keys, m.owners.byID[id].keys...)
	}
	m.mu.Unlock()
	return sorted(keys)
}

// OwnersOf returns the owners that reference an object now, sorted as Owners does. There
// are none for an object that only a Get has acquired
// ([objectcache.WatchOptions].AcquireOnGet). OwnersOf looks through all owners; Changes
// yields the owners of each object that changes.
func (m *Manager[T]) OwnersOf(namespace, name string) []Owner {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var owners []Owner
	m.mu.Lock()
	for _, registration := range m.owners.byID {
		if registration.has(key) {
			owners = append(owners, registration.owner)
		}
	}
	m.mu.Unlock()
	slices.SortFunc(owners, compareOwners)
	return owners
}

// referenced returns the keys that any owner references, sorted.
func (m *Manager[T]) referenced() []types.NamespacedName { return sorted(m.keys()) }

// keys returns the references of all owners, in no order: a key as often as it is referenced.
func (m *Manager[T]) keys() (keys []types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, registration := range m.owners.byID {
		keys = append(keys, registration.keys...)
	}
	return keys
}

// sorted sorts keys by namespace and name, and removes duplicates.
func sorted(keys []types.NamespacedName) []types.NamespacedName {
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(keys)
}
