// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
)

// What reflectors write. An objectWatch is the store of its reflector, or gets what the shared
// stream brings. It writes the state of its entry as long as it is the watch of that entry:
// an answer that comes after it was replaced is dropped. The methods of client-go's
// ReflectorStore always return nil: see package cache.
var (
	_ toolscache.ReflectorStore         = (*objectWatch[cache.Object])(nil)
	_ toolscache.ReflectorBookmarkStore = (*objectWatch[cache.Object])(nil)
)

// Add implements client-go's ReflectorStore: an ADDED event.
func (w *objectWatch[T]) Add(item any) error {
	w.event(item, true)
	return nil
}

// Update implements client-go's ReflectorStore: a MODIFIED event.
func (w *objectWatch[T]) Update(item any) error {
	w.event(item, true)
	return nil
}

// Delete implements client-go's ReflectorStore: a DELETED event.
func (w *objectWatch[T]) Delete(item any) error {
	w.event(item, false)
	return nil
}

// Resync implements client-go's ReflectorStore; there is nothing to do.
func (w *objectWatch[T]) Resync() error { return nil }

// Bookmark implements client-go's ReflectorBookmarkStore.
func (w *objectWatch[T]) Bookmark(version string) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.mayWriteLocked() && cache.CheckVersion(version) == nil {
		w.entry.order.Bookmark(version)
	}
	return nil
}

// Replace implements client-go's ReflectorStore: a complete read.
func (w *objectWatch[T]) Replace(items []any, version string) error {
	if version == "" {
		w.replaceObject(items)
		return nil
	}
	read, err := cache.CheckRead[T](w.entry.key, items, version)
	if err != nil {
		return nil // the reflector has checked it
	}
	if read.Exists {
		read.Object.SetManagedFields(nil)
	}
	for stored := false; !stored; {
		stored = w.replace(read, version)
	}
	return nil
}

// replaceObject stores what a GET has brought, and nothing else: see getSource.
func (w *objectWatch[T]) replaceObject(items []any) {
	read := cache.State[T]{Synced: true, Exists: len(items) > 0}
	if read.Exists {
		read.Object = items[0].(T)
		read.ResourceVersion = read.Object.GetResourceVersion()
	}
	began := w.status().AskedAt
	lapses := w.store.freshUntil(began, read)
	held := w.entry.state()
	same := held.SameContent(read)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.mayWriteLocked() {
		w.storeLocked(w.entry.order.ReadObject(held, read, same))
		w.lapses = lapses
		w.until.Store(lapses) // after the state: see isYoung
		w.entry.readBegan = later(w.entry.readBegan, began)
	}
}

// replace stores a complete read. It compares content without a lock. In the rare case that the
// state has changed meanwhile it stores nothing, and returns false.
func (w *objectWatch[T]) replace(read cache.State[T], version string) bool {
	held := w.entry.state()
	same := held.SameContent(read)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	now := w.entry.state()
	if now.Exists != held.Exists || any(now.Object) != any(held.Object) {
		return false
	}
	if w.mayWriteLocked() {
		w.storeLocked(w.entry.order.Read(now, read, version, same))
	}
	return true
}

// event stores an event.
func (w *objectWatch[T]) event(item any, exists bool) {
	object, err := cache.CheckObject[T](w.entry.key, item)
	if err != nil {
		return // the reflector has checked it
	}
	if exists {
		object.SetManagedFields(nil)
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.eventLocked(object, exists)
}

func (w *objectWatch[T]) eventLocked(object T, exists bool) {
	if w.mayWriteLocked() {
		w.storeLocked(w.entry.order.Event(w.entry.state(), object, exists))
	}
}

func (w *objectWatch[T]) mayWriteLocked() bool { return w.entry.watch.Load() == w }

func (w *objectWatch[T]) storeLocked(state cache.State[T], verdict cache.Verdict) {
	if verdict == cache.Newer {
		w.store.setStateLocked(w.entry, state)
	}
}

// NewEpoch is called when the server was rolled back.
func (w *objectWatch[T]) NewEpoch() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.mayWriteLocked() {
		w.entry.order.NewEpoch()
	}
}

// Check returns why an object is not the one of the entry.
func (w *objectWatch[T]) Check(object runtime.Object) error {
	_, err := cache.CheckObject[T](w.entry.key, object)
	return err
}

// CheckRead returns why a complete read is not one of the object.
func (w *objectWatch[T]) CheckRead(items []any, version string) error {
	if version == "" {
		return nil // resource.Reader has checked the answer to a GET
	}
	_, err := cache.CheckRead[T](w.entry.key, items, version)
	return err
}

// Holds reports whether a complete read brings nothing new.
func (w *objectWatch[T]) Holds(items []any) bool { return w.entry.state().Holds(w.entry.key, items) }
