// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
)

// What the reflector of a shared stream writes.

// A sharedStream is the store of its reflector: it passes on what arrives to the watches of
// the members that have joined. Of a member that is about to join it keeps the version
// only. A watch that is replaced meanwhile drops what comes, and its successor begins with a
// read.
var (
	_ toolscache.ReflectorStore         = (*sharedStream[cache.Object])(nil)
	_ toolscache.ReflectorBookmarkStore = (*sharedStream[cache.Object])(nil)
)

// Add implements client-go's ReflectorStore. It always returns nil.
func (st *sharedStream[T]) Add(object any) error {
	st.put(object, true)
	return nil
}

// Update implements client-go's ReflectorStore. It always returns nil.
func (st *sharedStream[T]) Update(object any) error {
	st.put(object, true)
	return nil
}

// Delete implements client-go's ReflectorStore. It always returns nil.
func (st *sharedStream[T]) Delete(object any) error {
	st.put(object, false)
	return nil
}

// Resync implements client-go's ReflectorStore; there is nothing to do.
func (st *sharedStream[T]) Resync() error { return nil }

// put passes on an event.
func (st *sharedStream[T]) put(object any, exists bool) {
	header, err := meta.Accessor(object)
	if err != nil {
		return // the reflector has checked it
	}
	if w := st.event(header.GetName(), header.GetResourceVersion(), exists); w != nil {
		w.event(object, exists)
		w.ReflectorChanged()
	}
}

// event records an event, and returns the watch that it is for, nil if there is none, or if
// it has a stream of its own.
func (st *sharedStream[T]) event(name, version string, exists bool) *objectWatch[T] {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	st.advanceLocked(version)
	m := st.member(name)
	if m == nil {
		return nil
	}
	if w, joined := st.watch(m); joined {
		return w
	}
	if m.known = version; !exists {
		m.known = "" // some servers send a deletion with the object's last version
	}
	st.joinLocked(m)
	return nil
}

// advanceLocked records that all events up to a version have been seen.
func (st *sharedStream[T]) advanceLocked(version string) {
	if order, _ := cache.CompareVersions(version, st.version); order > 0 {
		st.version = version
	}
}

// Bookmark implements client-go's ReflectorBookmarkStore. It always returns nil. Members
// need no bookmarks: st.version is that of all.
func (st *sharedStream[T]) Bookmark(version string) error {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	st.advanceLocked(version)
	for _, m := range st.members.Range {
		m := m.(*sharedEntry[T])
		if _, joined := st.watch(m); joined {
			continue
		}
		if m.known == "" {
			m.known = version
		}
		st.joinLocked(m)
	}
	return nil
}

// Replace implements client-go's ReflectorStore: a complete read. It always returns nil.
func (st *sharedStream[T]) Replace(items []any, version string) error {
	byName := itemsByName(items)
	for _, w := range st.read(version) {
		_ = w.Replace(byName[w.entry.key.Name], version)
		w.ReflectorChanged()
	}
	return nil
}

// read records a complete read, and returns the watches that it is for. Each of them was
// a member before the read began: a member joins after a bookmark or an event.
func (st *sharedStream[T]) read(version string) (watches []*objectWatch[T]) {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	st.version = version
	for _, m := range st.members.Range {
		m := m.(*sharedEntry[T])
		if w, joined := st.watch(m); joined {
			watches = append(watches, w)
		} else {
			m.known = version
		}
	}
	return watches
}

// NewEpoch is called when the server was rolled back.
func (st *sharedStream[T]) NewEpoch() {
	for _, w := range st.read("") {
		w.NewEpoch()
	}
}

// Check returns an error if a member does not accept its object.
func (st *sharedStream[T]) Check(object runtime.Object) error {
	header, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	if header.GetName() == "" {
		return fmt.Errorf("%w: an object without a name", cache.ErrMalformed)
	}
	if m := st.member(header.GetName()); m != nil {
		if w, joined := st.watch(m); joined {
			return w.Check(object)
		}
	}
	return nil
}

// CheckRead returns an error if a member does not accept its part of a complete read.
func (st *sharedStream[T]) CheckRead(items []any, version string) error {
	for name, items := range itemsByName(items) {
		if m := st.member(name); m != nil {
			if w, joined := st.watch(m); joined {
				if err := w.CheckRead(items, version); err != nil {
					return err
				}
			}
		}
	}
	return cache.CheckVersion(version)
}

// Holds reports whether a complete read brings nothing new to any member.
func (st *sharedStream[T]) Holds(items []any) bool {
	byName := itemsByName(items)
	for name, m := range st.members.Range {
		if w, joined := st.watch(m.(*sharedEntry[T])); joined && !w.Holds(byName[name.(string)]) {
			return false
		}
	}
	return true
}

func itemsByName(items []any) map[string][]any {
	byName := map[string][]any{}
	for _, item := range items {
		if header, err := meta.Accessor(item); err == nil {
			byName[header.GetName()] = append(byName[header.GetName()], item)
		}
	}
	return byName
}
