// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// firstVersion is the resourceVersion before the first write: well above zero, as on a cluster that has
// already started its own components, so that no client gets away with treating versions as small numbers.
const firstVersion = 1000

// errStale is what swap returns when the object is no longer the one the caller has read.
var errStale = errors.New("the object was written meanwhile")

// object is a typed API object. Once it is in the store nobody may write to it: readers, streams and the
// history share it without copying. Its TypeMeta is set, so that it can be encoded as it stands.
type object interface {
	metav1.Object
	runtime.Object
}

// store is a versioned map of objects with a history, as etcd and the watch cache are together.
// One counter rises across all resources; every write takes the next number.
type store struct {
	mu      sync.Mutex
	version uint64
	tables  map[string]*table // by resource name; the map itself never changes
}

// table is one resource's part of the store. store.mu guards all of it but the resource.
type table struct {
	resource *resource
	objects  map[types.NamespacedName]object
	history  history
	watchers map[types.NamespacedName]map[*watcher]struct{} // by what they select; empty parts mean any
}

func newStore(resources []*resource, historyLimit int) *store {
	s := &store{version: firstVersion, tables: map[string]*table{}}
	for _, r := range resources {
		s.tables[r.name] = &table{
			resource: r,
			objects:  map[types.NamespacedName]object{},
			history:  history{floor: firstVersion, limit: historyLimit},
			watchers: map[types.NamespacedName]map[*watcher]struct{}{},
		}
	}
	return s
}

func (s *store) currentVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// get returns the object under key, or nil, and the version of the store at that moment.
func (s *store) get(t *table, key types.NamespacedName) (object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.objects[key], s.version
}

// swap is the only way to write: it replaces old by next under key and tells every watcher that may care.
// A nil old creates, a nil next deletes. It takes next over and gives it the next resourceVersion. It returns
// what is stored now (for a deletion: the last state, at the version of the deletion), errStale when old is
// not what is stored, and NotFound when the namespace of a new object does not exist.
func (s *store) swap(t *table, key types.NamespacedName, old, next object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := t.objects[key]; current != old {
		return nil, errStale
	}
	if next == nil {
		return s.deleteLocked(t, key), nil
	}
	if old == nil {
		if err := s.checkNamespaceLocked(t, key); err != nil {
			return nil, err
		}
	}
	s.version++
	next.SetResourceVersion(formatVersion(s.version))
	t.objects[key] = next
	s.publishLocked(t, &event{version: s.version, key: key, object: next, previous: old})
	return next, nil
}

// wouldCreate is swap for the creation of obj in a dry run: the same errors, and nothing written.
func (s *store) wouldCreate(t *table, key types.NamespacedName, obj object) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.objects[key] != nil {
		return nil, errStale
	}
	if err := s.checkNamespaceLocked(t, key); err != nil {
		return nil, err
	}
	return obj, nil
}

// checkNamespaceLocked does the work of the admission plugin NamespaceLifecycle: nothing is created in a
// namespace that does not exist.
func (s *store) checkNamespaceLocked(t *table, key types.NamespacedName) error {
	if !t.resource.namespaced || s.tables["namespaces"].objects[types.NamespacedName{Name: key.Namespace}] != nil {
		return nil
	}
	return apierrors.NewNotFound(namespaces.groupResource(), key.Namespace)
}

// deleteLocked removes key, and with a namespace everything in it: unlike on a cluster, where a controller
// empties a terminating namespace step by step, this is one step that nobody can see half done.
func (s *store) deleteLocked(t *table, key types.NamespacedName) object {
	if t.resource == namespaces {
		// In a fixed order, so that a test run twice sees the same versions.
		for _, name := range slices.Sorted(maps.Keys(s.tables)) {
			other := s.tables[name]
			inside := selectFrom(other.objects, newSelection(other.resource, key.Name, nil, nil))
			sortByKey(inside)
			for _, obj := range inside {
				if other != t {
					s.deleteLocked(other, keyOf(obj))
				}
			}
		}
	}
	old := t.objects[key]
	delete(t.objects, key)
	s.version++
	last := withVersion(old, s.version)
	s.publishLocked(t, &event{version: s.version, key: key, object: last, previous: old, deleted: true})
	return last
}

// publishLocked records the event and hands it to the watchers that select its object by name, by
// namespace, or all: the cost of a write follows those, not the number of open streams.
func (s *store) publishLocked(t *table, e *event) {
	t.history.add(e)
	scopes := []types.NamespacedName{e.key, {Namespace: e.key.Namespace}, {Name: e.key.Name}, {}}
	if e.key.Namespace == "" {
		scopes = []types.NamespacedName{e.key, {}}
	}
	for _, scope := range scopes {
		for w := range t.watchers[scope] {
			w.add(e)
		}
	}
}

// list returns the selected objects in the order of their storage keys, as they are at version exact, and
// that version; zero stands for the newest. It returns Expired when that version has been forgotten, and
// Timeout with cause ResourceVersionTooLarge when the store has not reached notOlderThan.
func (s *store) list(t *table, sel *selection, notOlderThan, exact uint64) ([]object, uint64, error) {
	found, version, err := s.listUnsorted(t, sel, notOlderThan, exact)
	sortByKey(found)
	return found, version, err
}

func (s *store) listUnsorted(t *table, sel *selection, notOlderThan, exact uint64) ([]object, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if notOlderThan > s.version {
		return nil, 0, tooLarge(notOlderThan, s.version)
	}
	if exact == 0 {
		return selectFrom(t.objects, sel), s.version, nil
	}
	objects, ok := t.history.undo(t.objects, exact)
	if !ok {
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return selectFrom(objects, sel), exact, nil
}

// selectFrom looks a named selection up instead of looking through all objects.
func selectFrom(objects map[types.NamespacedName]object, sel *selection) []object {
	if scope, ok := sel.single(); ok {
		if obj, ok := objects[scope]; ok && sel.matches(obj) {
			return []object{obj}
		}
		return nil
	}
	var found []object
	for _, obj := range objects {
		if sel.matches(obj) {
			found = append(found, obj)
		}
	}
	return found
}

func sortByKey(objects []object) {
	slices.SortFunc(objects, func(a, b object) int { return strings.Compare(storageKey(a), storageKey(b)) })
}

// storageKey orders objects as etcd does, which is not the order by namespace and then by name:
// "a-b/x" comes before "a/x".
func storageKey(obj object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

func keyOf(obj object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// withVersion is a copy of obj at another version.
func withVersion(obj object, version uint64) object {
	copied := obj.DeepCopyObject().(object)
	copied.SetResourceVersion(formatVersion(version))
	return copied
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
