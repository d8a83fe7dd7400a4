// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync/atomic"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/reflector"
)

// objectWatch brings the states of an entry: with a reflector of its own, which follows the
// object, reads it or pauses, or from a shared stream. When the object passes from one to the
// other, another watch takes its place. It begins with the state of its predecessor, and serves
// that until its own first read. What the predecessor writes from then on is dropped: see
// writer.go.
type objectWatch[T cache.Object] struct {
	store     *WatchStore[T]
	entry     *entry[T]
	reflector *reflector.Reflector // that of the shared stream, if there is one
	shared    *sharedStream[T]     // nil if the reflector is its own
	until     atomic.Int64         // of a TTLStore: until when the state is served without another read, since WatchStore.base
	lapses    int64                // the same without prolongLocked; guarded by WatchStore.mu

	// Guarded by WatchStore.mu.
	upkeep       engine.Upkeep
	reason       engine.Reason // why there is no stream, if upkeep is ByNone
	synced       bool          // a read has been stored since startLocked
	hedged       bool          // until then, the state is from hedged reads only
	behind       bool          // that read was older than the state, which is from a hedged one
	hedgeQueued  bool          // a hedged read waits until it may begin
	hedgeRefused bool          // the server has refused one, and has not answered the stream
	nextHedge    time.Duration // when the next hedged read may begin, since WatchStore.base
}

// isHedged reports whether the state of a watch is from hedged reads only.
func (w *objectWatch[T]) isHedged() bool { return w.hedged && !w.synced }

// stopLocked ends the reflector, unless that is of a shared stream.
func (w *objectWatch[T]) stopLocked(reason error) {
	if w.shared == nil {
		w.logEndLocked(reason)
		w.reflector.Stop()
	}
}

// share makes a shared stream bring the changes of the object.
func (w *objectWatch[T]) share(st *sharedStream[T]) {
	w.upkeep, w.shared, w.reflector = engine.BySharedStream, st, st.reflector
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
// startLocked the hedged reads end. One that is behind them counts for no Get, nor as a contact.
func (w *objectWatch[T]) recordLocked(status reflector.Status) {
	e := w.entry
	synced := status.Synced || w.upkeep == engine.BySharedStream && e.state().Synced
	if synced && !w.synced {
		w.behind = (w.hedged || w.hedgeRefused) && w.store.hedgesEndLocked(w, status)
	}
	if w.synced = synced; w.behind {
		return
	}
	if !status.LastContact.IsZero() {
		e.contact.Store(max(e.contact.Load(), w.store.sinceBase(status.LastContact)))
		e.noticed = true
	}
	e.readFor = max(e.readFor, status.ReadFor)
}
