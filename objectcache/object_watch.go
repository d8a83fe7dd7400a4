// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// objectWatch is one list-and-watch of an entry. Once it has ended it is replaced,
// and never started again: its successor has a slot of its own, so no late answer
// can be taken for the state. A successor begins with the state of its predecessor,
// and serves that until its own first read.
type objectWatch[T cache.Object] struct {
	slot      *cache.Slot[T]
	reflector *reflector.Reflector // of the shared stream, if it has no stream of its own
	shared    *sharedStream[T]     // nil if it has a stream of its own
	base      time.Time            // just before the first of its predecessors began

	// readFor is the highest number of a read that was asked for before the
	// consistent read of the state began: see owners. Load it before the state.
	readFor atomic.Uint64
	// contact is when the server last sent something, as a duration since base; 0
	// for never. Load it before the state: a state loaded later is no older.
	contact atomic.Int64
	// noticed is set once a read of its own, or of a predecessor, has been recorded.
	noticed atomic.Bool
	// live is set while a stream brings the changes of the state, to which a new owner
	// then needs no read of its own. It is written with WatchStore.mu held. Load it
	// before the state.
	live atomic.Bool

	// Guarded by WatchStore.mu.
	once         bool          // its reflector reads the object once, without a stream
	synced       bool          // a read of its own has reached the slot
	hedged       bool          // until then, the slot has its state from hedged reads only
	hedgeQueued  bool          // a hedged read waits until it may begin
	hedgeRefused bool          // the server has refused one, and has not answered the stream
	nextHedge    time.Duration // when the next hedged read may begin, since base
	reason       error         // why it was stopped, for the log
	// unwatched is why the object has no stream of its own; empty while it has one.
	// The state is served until the object has to be read again.
	unwatched Phase
}

// stopLocked ends the stream, unless it is shared.
func (w *objectWatch[T]) stopLocked(reason error) {
	w.reason = cmp.Or(w.reason, reason)
	if w.shared == nil {
		w.reflector.Stop()
	}
}

// hasOwnStream reports whether the object has a stream of its own, or is about to.
func (w *objectWatch[T]) hasOwnStream() bool { return w.unwatched == "" && w.shared == nil }

// status returns the status of the reflector. A 404 among its errors is a
// [resource.NotServedError].
func (w *objectWatch[T]) status() reflector.Status {
	status := w.reflector.Status()
	status.LastError = notServed(status.LastError)
	return status
}

// recordLocked updates contact, noticed and readFor. The slot is never behind them.
func (w *objectWatch[T]) recordLocked(status reflector.Status) {
	if !status.LastContact.IsZero() {
		w.contact.Store(max(w.contact.Load(), int64(status.LastContact.Sub(w.base))))
		w.noticed.Store(true)
	}
	w.readFor.Store(max(w.readFor.Load(), status.ReadFor))
}

// lastContactLocked returns when the server last sent something about the object.
func (w *objectWatch[T]) lastContactLocked(status reflector.Status) time.Time {
	contact := w.contact.Load() // or that of its predecessors
	if own := w.base.Add(time.Duration(contact)); contact > 0 && own.After(status.LastContact) {
		return own
	}
	return status.LastContact
}

// isStale reports whether the server has sent nothing for longer than a duration; 0 is
// no bound. A state that is loaded after the call may be younger.
func (w *objectWatch[T]) isStale(bound time.Duration) bool {
	if bound <= 0 {
		return false
	}
	contact := w.contactTime()
	return contact.IsZero() || time.Since(contact) > bound
}

// contactTime returns when the server last sent something about the object, zero if it
// never did. A state that is loaded after the call may be younger.
func (w *objectWatch[T]) contactTime() (at time.Time) {
	if contact := w.contact.Load(); contact != 0 {
		at = w.base.Add(time.Duration(contact))
	}
	if w.shared == nil {
		return at
	}
	if contact := w.shared.contact.Load(); contact != 0 {
		at = later(at, w.shared.base.Add(time.Duration(contact)))
	}
	return at
}
