// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// firstVersion is the resourceVersion before the first write. It is well above zero, as on a real cluster, so that
// tests fail for clients that expect versions to be small.
const firstVersion = 1000

// errStale is returned by swap if the object is not the one that the caller has read.
var errStale = errors.New("the object was written meanwhile")

// object is a typed API object. An object in the store must not be changed: readers, streams and the history share it
// without copying. Its TypeMeta is set, so that it can be encoded.
type object interface {
	metav1.Object
	runtime.Object
}

// store is a versioned map of objects with a history: etcd and the watch cache in one. All resources share one counter,
// and every write takes the next number.
type store struct {
	resources []*resource                            // in the order of discovery
	tables    map[schema.GroupVersionResource]*table // by resource; the map itself never changes

	mu      sync.Mutex
	version uint64
	observe func(Write) // nil: nobody observes
	caches  []*watchCache
}

// table is the part of the store for one resource. store.mu guards all fields but resource.
type table struct {
	resource *resource
	objects  map[types.NamespacedName]object
	history  history
	watchers map[types.NamespacedName]map[*watcher]struct{} // by the key they select; an empty part means any
}

func newStore(resources []*resource, historyLimit int) *store {
	s := &store{version: firstVersion, resources: resources, tables: map[schema.GroupVersionResource]*table{}}
	for _, r := range resources {
		s.tables[r.gvr()] = &table{
			resource: r,
			objects:  map[types.NamespacedName]object{},
			history:  history{floor: firstVersion, limit: historyLimit},
			watchers: map[types.NamespacedName]map[*watcher]struct{}{},
		}
	}
	return s
}

func (s *store) tableOf(r *resource) *table { return s.tables[r.gvr()] }

func (s *store) currentVersion() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// get returns the object with key or nil, and the version of the store.
func (s *store) get(t *table, key types.NamespacedName) (object, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.objects[key], s.version
}

// getCached is get from the watch cache.
func (c *watchCache) getCached(t *table, key types.NamespacedName) (object, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cacheLocked(t)[key], c.cacheVersionLocked()
}

// swap is the only way to write. It replaces old by next under key, and notifies the watchers whose scope covers key. A
// nil old creates the object, a nil next deletes it. swap owns next and sets its resourceVersion. It returns the stored
// object or, for a deletion, the last state at the version of the deletion. It returns errStale if old is not the
// stored object, and NotFound if the namespace of a new object does not exist.
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

// dryRunCreate returns the result of swap for the creation of obj without writing it.
func (s *store) dryRunCreate(t *table, key types.NamespacedName, obj object) (object, error) {
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

// checkNamespaceLocked returns NotFound if the namespace of key does not exist, as the admission plugin
// NamespaceLifecycle does.
func (s *store) checkNamespaceLocked(t *table, key types.NamespacedName) error {
	if !t.resource.namespaced || s.tableOf(namespaces).objects[types.NamespacedName{Name: key.Namespace}] != nil {
		return nil
	}
	return apierrors.NewNotFound(namespaces.groupResource(), key.Namespace)
}

// deleteLocked deletes key and, for a Namespace, all objects in the namespace. On a cluster, a controller deletes them
// one by one; here it is one atomic step.
func (s *store) deleteLocked(t *table, key types.NamespacedName) object {
	if t.resource == namespaces {
		// The order is fixed, so that versions are the same in every run of a test.
		for _, r := range s.resources {
			other := s.tableOf(r)
			inside := selectFrom(other.objects, newSelection(r, key.Name, nil, nil))
			sortByKey(inside)
			for _, obj := range inside {
				s.deleteLocked(other, keyOf(obj))
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

// publishLocked adds the event to the history, and to the queues of watchers, or to what a lagging watch cache has
// missed.
func (s *store) publishLocked(t *table, e *event) {
	if s.observe != nil {
		s.observe(e.write(t.resource.groupResource()))
	}
	t.history.add(e)
	for _, c := range s.caches {
		if c.lag != nil {
			c.lag.pending = append(c.lag.pending, publication{t, e})
		} else {
			t.deliverLocked(c, e)
		}
	}
}

// deliverLocked adds the event to the queues of the watchers of a watch cache that select its object by name, by
// namespace, or all. The cost of a write grows with their number, not with that of all open streams.
func (t *table) deliverLocked(c *watchCache, e *event) {
	scopes := []types.NamespacedName{e.key, {Namespace: e.key.Namespace}, {Name: e.key.Name}, {}}
	if e.key.Namespace == "" {
		scopes = []types.NamespacedName{e.key, {}}
	}
	for _, scope := range scopes {
		for w := range t.watchers[scope] {
			if w.cache == c {
				w.add(e)
			}
		}
	}
}

// list returns the objects that are selected at the version of the plan, sorted by storage key, and that version. It
// returns Expired if the history does not reach back to plan.exact, and Timeout with cause ResourceVersionTooLarge if
// the store, or the watch cache that the plan reads, has not reached plan.notOlderThan.
func (c *watchCache) list(t *table, sel *selection, plan listPlan) ([]object, uint64, error) {
	found, version, err := c.listUnsorted(t, sel, plan)
	sortByKey(found)
	return found, version, err
}

func (c *watchCache) listUnsorted(t *table, sel *selection, plan listPlan) ([]object, uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects, version := t.objects, c.version
	if plan.cached {
		objects, version = c.cacheLocked(t), c.cacheVersionLocked()
	}
	if plan.notOlderThan > version {
		return nil, 0, tooLarge(plan.notOlderThan, version)
	}
	if plan.exact == 0 {
		return selectFrom(objects, sel), version, nil
	}
	objects, ok := t.history.undo(t.objects, plan.exact)
	if !ok {
		return nil, 0, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return selectFrom(objects, sel), plan.exact, nil
}

// selectFrom returns the selected objects. It looks a single object up by its key.
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

// storageKey returns the key by which etcd sorts objects. This is not the order by namespace and name: "a-b/x" is
// before "a/x".
func storageKey(obj object) string {
	if obj.GetNamespace() == "" {
		return obj.GetName()
	}
	return obj.GetNamespace() + "/" + obj.GetName()
}

func keyOf(obj object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// withVersion returns a copy of obj with the version.
func withVersion(obj object, version uint64) object {
	copied := obj.DeepCopyObject().(object)
	copied.SetResourceVersion(formatVersion(version))
	return copied
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }
