// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// objectWatch brings the states of an entry, with a reflector that follows the object, reads it
// or pauses. What it writes after it was stopped is dropped: see mayWriteLocked.
type objectWatch[T cache.Object] struct {
	store     *WatchStore[T]
	entry     *entry[T]
	reflector *reflector.Reflector
	until     atomic.Int64 // of a TTLStore: until when the state is served without another read: see WatchStore.nowAged
	lapses    int64        // the same without prolongLocked; guarded by WatchStore.mu

	// Guarded by WatchStore.mu.
	upkeep   engine.Upkeep
	reason   engine.Reason // why there is no stream, if upkeep is ByNone
	synced   bool          // a read has been stored since startLocked
	old      bool          // that read may be older than the reference: see WatchOptions.FirstReadMaxAge
	behind   bool          // that read was older than the state, which is from a hedged one
	getting  bool          // a GET of the reflector is under way, or its state is on its way into the store
	overlaps bool          // a hedged read was under way when it began
	byGet    bool          // the last state is from such a GET: an absence has no version
	hedge    engine.Hedge  // its hedged reads
}

// isHedgedLocked reports whether the state of a watch is from hedged reads only.
func (w *objectWatch[T]) isHedgedLocked() bool { return w.hedge.Brought && !w.synced }

// ReflectorName implements [reflector.Namer].
func (w *objectWatch[T]) ReflectorName() string {
	return w.store.resource.resource.String() + " " + keyText(w.entry.key)
}

// status returns the status of the reflector. It is not ahead of the state of the entry while
// WatchStore.mu is held: the reflector updates it after the watch has stored what came. A 404
// among its errors is a [resource.NotServedError].
func (w *objectWatch[T]) status() reflector.Status {
	status := w.reflector.Status()
	status.LastError = notServed(status.LastError)
	return status
}

// recordLocked updates what the entry has of the status of its watch. With the first read since
// startLocked the hedged reads end. One that is older than they are (behind) counts for no Get, nor
// as a contact: in between, the server may have been restored from a backup.
func (w *objectWatch[T]) recordLocked(status reflector.Status) {
	e := w.entry
	if status.Synced && !w.synced {
		w.store.hedges.Opened(&w.hedge, e.key.Namespace, w.store.now())
	}
	w.getting = w.getting && !status.AskedAt.IsZero()
	if w.synced = status.Synced; w.behind {
		return
	}
	if !status.LastContact.IsZero() {
		raise(&e.contact, w.store.sinceBase(status.LastContact))
		e.noticed = true
	}
	e.readFor = max(e.readFor, status.ReadFor)
}

// What reflectors write. An objectWatch is the store of its reflector. It writes the state of its
// entry as long as it is the watch of that entry: an answer that comes after it was stopped is
// dropped. The methods of client-go's ReflectorStore call the function of WithTransform, without a
// lock: on the goroutine of an attempt, of a worker, or of a stream that is not parked. They return
// its error, and no other: see package states.
var (
	_ toolscache.ReflectorStore = (*objectWatch[cache.Object])(nil)
	_ reflector.Checker         = (*objectWatch[cache.Object])(nil)
	_ reflector.ReadChecker     = (*objectWatch[cache.Object])(nil)
	_ reflector.EpochStarter    = (*objectWatch[cache.Object])(nil)
	_ reflector.Comparer        = (*objectWatch[cache.Object])(nil)
	_ reflector.BookmarkTaker   = (*objectWatch[cache.Object])(nil)
	_ reflector.Getter          = (*objectWatch[cache.Object])(nil)
	_ reflector.Namer           = (*objectWatch[cache.Object])(nil)
	_ reflector.Observer        = (*objectWatch[cache.Object])(nil)
)

// Add implements client-go's ReflectorStore: an ADDED event.
func (w *objectWatch[T]) Add(item any) error {
	return w.event(item, true)
}

// Update implements client-go's ReflectorStore: a MODIFIED event.
func (w *objectWatch[T]) Update(item any) error {
	return w.event(item, true)
}

// Delete implements client-go's ReflectorStore: a DELETED event.
func (w *objectWatch[T]) Delete(item any) error {
	return w.event(item, false)
}

// Resync implements client-go's ReflectorStore; there is nothing to do.
func (w *objectWatch[T]) Resync() error { return nil }

// TakeBookmark implements [reflector.BookmarkTaker]. It takes no lock, and notifies no follower of
// Changes: the state is the same. The version is that of the reflector: see versionLocked.
//
// A Get counts itself in waiters before it reads the version and the contact. So either this sees
// the Get, and leaves the bookmark to ReflectorChanged, which wakes it, or the Get sees the bookmark.
func (w *objectWatch[T]) TakeBookmark(string) bool {
	e := w.entry
	if e.watch.Load() != w {
		return false
	}
	raise(&e.contact, w.store.nowAged())
	return e.waiters.Load() == 0
}

// Replace implements client-go's ReflectorStore: a complete read.
func (w *objectWatch[T]) Replace(items []any, version string) error {
	if version == "" {
		return w.replaceObject(items)
	}
	read, err := states.CheckRead[T](w.entry.key, items, version)
	if err != nil {
		return nil // the reflector has checked it
	}
	if read.Exists {
		if read.Object, err = w.store.resource.Transform(read.Object); err != nil {
			return err
		}
	}
	for stored := false; !stored; {
		stored = w.replace(read, version)
	}
	return nil
}

// GetObject implements [reflector.Getter].
func (w *objectWatch[T]) GetObject(ctx context.Context) (runtime.Object, error) {
	w.store.mu.Lock()
	w.getting, w.overlaps = true, w.hedge.UnderWay
	w.store.mu.Unlock()
	state, err := w.store.resource.Read(ctx, w.entry.key)
	if err != nil || !state.Exists {
		return nil, err
	}
	return state.Object, nil
}

// replaceObject stores what a GET has brought, and nothing else.
func (w *objectWatch[T]) replaceObject(items []any) (err error) {
	read := states.State[T]{Synced: true, Exists: len(items) > 0}
	if read.Exists {
		if read.Object, err = w.store.resource.Transform(items[0].(T)); err != nil {
			return err
		}
		read.ResourceVersion = read.Object.GetResourceVersion()
	}
	began, lapses := w.status().AskedAt, int64(0)
	if w.store.ttl != nil {
		lapses = w.store.freshUntil(began, read)
	}
	for stored := false; !stored; {
		stored = w.replaceByGet(read, began, lapses)
	}
	return nil
}

// replaceByGet stores what a GET has brought that began then. It is as replace. Beside a hedged read, which may be
// the later one, an older object or none says nothing: the next GET does.
func (w *objectWatch[T]) replaceByGet(read states.State[T], began time.Time, lapses int64) bool {
	e, held := w.entry, w.entry.state()
	same := held.SameContent(read)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if now := e.state(); now.Exists != held.Exists || any(now.Object) != any(held.Object) {
		return false
	}
	if !w.mayWriteLocked() {
		return true
	}
	order, _ := states.CompareVersions(read.ResourceVersion, e.order.Version())
	if w.behind = w.overlaps && held.Synced && order < 0; w.behind {
		e.order.NewWriter()
		return true
	}
	w.storeLocked(e.order.ReadObject(held, read, same))
	w.byGet, w.lapses = true, lapses
	w.until.Store(lapses) // after the state: see viewOf
	e.readBegan = max(e.readBegan, began.Sub(w.store.base))
	return true
}

// replace stores a complete read. It compares content without a lock. In the rare case that the
// state has changed meanwhile it stores nothing, and returns false.
func (w *objectWatch[T]) replace(read states.State[T], version string) bool {
	held := w.entry.state()
	same := held.SameContent(read)
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	now := w.entry.state()
	if now.Exists != held.Exists || any(now.Object) != any(held.Object) {
		return false
	}
	if w.mayWriteLocked() {
		w.byGet = false
		state, verdict := w.entry.order.Read(now, read, version, same)
		if w.behind = verdict == states.Late && w.isHedgedLocked(); w.behind {
			w.entry.order.NewWriter() // the next read proves a rollback, or has the state
		}
		w.storeLocked(state, verdict)
	}
	return true
}

// event stores an event.
func (w *objectWatch[T]) event(item any, exists bool) error {
	object, err := states.CheckObject[T](w.entry.key, item)
	if err != nil {
		return nil // the reflector has checked it
	}
	if exists {
		if object, err = w.store.resource.Transform(object); err != nil {
			return err
		}
	}
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.eventLocked(object, exists)
	return nil
}

func (w *objectWatch[T]) eventLocked(object T, exists bool) {
	if w.mayWriteLocked() {
		w.byGet = false
		w.entry.order.Bookmark(w.reflector.ResourceVersion()) // that of bookmarks
		w.storeLocked(w.entry.order.Event(w.entry.state(), object, exists))
	}
}

func (w *objectWatch[T]) mayWriteLocked() bool { return w.entry.watch.Load() == w }

func (w *objectWatch[T]) storeLocked(state states.State[T], verdict states.Verdict) {
	if verdict == states.Newer {
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
	_, err := states.CheckObject[T](w.entry.key, object)
	return err
}

// CheckRead returns why a complete read is not one of the object.
func (w *objectWatch[T]) CheckRead(items []any, version string) error {
	if version == "" {
		return nil // package resource has checked the answer to a GET
	}
	_, err := states.CheckRead[T](w.entry.key, items, version)
	return err
}

// Holds reports whether a complete read brings nothing new.
func (w *objectWatch[T]) Holds(items []any) bool { return w.entry.state().Holds(w.entry.key, items) }
