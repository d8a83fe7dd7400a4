// SPDX-License-Identifier: Apache-2.0

package states

import "github.com/refwatch/refwatch/cache"

// Verdict is what an answer of the server means for the state that is held.
type Verdict string

const (
	// Newer: the answer is the state now.
	Newer Verdict = "Newer"
	// Same: the answer confirms the state that is held.
	Same Verdict = "Same"
	// Late: the answer is older than what was seen, and says nothing.
	Late Verdict = "Late"
)

// Order decides which answer about an object is the newest: reads and events may overtake
// each other. It holds the highest version that was seen, and counts epochs. Its methods
// take the state that is held and return the one to hold. It compares no content: the
// caller does, outside of locks ([SameContent]). An Order is not safe for concurrent use.
// The zero value has seen nothing, in epoch 0. Nothing else decides what is newer.
type Order[T cache.Object] struct {
	version   string // highest version seen in this epoch; empty: none
	epoch     uint64 // of the state that is stored next
	newWriter bool   // the next read is the first one of another writer
	first     bool   // nothing was seen but by First
}

// Version returns the highest version that was seen in this epoch, empty if none was.
func (o *Order[T]) Version() string { return o.version }

// NewWriter is called before the first read of another writer, which is a consistent one.
// If that read is older than what was seen, the server was rolled back.
func (o *Order[T]) NewWriter() { o.newWriter = true }

// NewEpoch begins an epoch, in which no version was seen: the server was rolled back.
func (o *Order[T]) NewEpoch() {
	o.version, o.newWriter, o.first = "", false, false
	o.epoch++
}

// Bookmark records that all changes up to a version have been seen.
func (o *Order[T]) Bookmark(version string) {
	o.first = false
	if order, _ := CompareVersions(version, o.version); order > 0 {
		o.version = version
	}
}

// Read decides about a complete read at a version. same reports whether held and read hold
// the same object with the same content, or both none.
//
// A read that is older than what was seen is late, or proves a rollback if it is the first
// one of another writer. So does a read of an older object than the one held, or of other
// content under the same version: the server's versions have since passed those that were
// seen. After a rollback a new epoch begins.
func (o *Order[T]) Read(held, read State[T], version string, same bool) (State[T], Verdict) {
	o.first = false
	order, _ := CompareVersions(version, o.version)
	if order < 0 && !o.newWriter {
		return held, Late
	}
	if o.version != "" && (order < 0 || !same && contradicts(held, read)) {
		o.epoch++
	}
	o.version, o.newWriter = version, false
	if same && held.Synced {
		return held, Same
	}
	return o.next(held, read)
}

// ReadObject decides about a read of the object alone (GET). It has no version but that of
// the object, so it must not overlap what an Order takes beside it: it is then newer than all
// before. The rules are those of Read.
func (o *Order[T]) ReadObject(held, read State[T], same bool) (State[T], Verdict) {
	o.first = false
	if same && held.Synced {
		return held, Same
	}
	if read.Exists {
		// Also after an absence, whose version is not known.
		if order, _ := CompareVersions(read.ResourceVersion, o.version); order <= 0 {
			o.epoch++
		}
		o.version = read.ResourceVersion
	}
	return o.next(held, read)
}

// Event decides about an event: the object has changed, or was deleted if exists is false.
// It is late unless it is newer than all that was seen. One exception: some servers send a
// deletion with the last version of the object. The absence is then as new as the highest
// version seen. An event does not sync the state: only a complete read does.
func (o *Order[T]) Event(held State[T], object T, exists bool) (State[T], Verdict) {
	o.first = false
	version := object.GetResourceVersion()
	switch order, _ := CompareVersions(version, o.version); {
	case order > 0:
		o.version = version
	case !exists && holds(held, object):
		version = o.version
	default:
		return held, Late
	}
	next := State[T]{Synced: held.Synced, Exists: exists, ResourceVersion: version}
	if exists {
		next.Object = object
	}
	return o.next(held, next)
}

// next returns a state of this epoch, or the one held if readers see no difference.
func (o *Order[T]) next(held, next State[T]) (State[T], Verdict) {
	next.Epoch = o.epoch
	if held.ResourceVersion != "" && held.same(next) {
		return held, Same
	}
	return next, Newer
}

// holds reports whether a state is that object at that version.
func holds[T cache.Object](held State[T], object T) bool {
	return held.Exists && held.ResourceVersion == object.GetResourceVersion() && held.Object.GetUID() == object.GetUID()
}

// contradicts reports whether a later read, which is not identical to the state held,
// cannot come after it in one epoch.
func contradicts[T cache.Object](held, read State[T]) bool {
	if !held.Synced || !read.Exists {
		return false // nothing is held, or an object was deleted
	}
	order, _ := CompareVersions(read.ResourceVersion, held.ResourceVersion)
	return order <= 0
}

// same reports whether a reader sees no difference between two states. The version of an
// absence makes none.
func (s *State[T]) same(other State[T]) bool {
	if s.Synced != other.Synced || s.Exists != other.Exists || s.Epoch != other.Epoch {
		return false
	}
	return !s.Exists || s.ResourceVersion == other.ResourceVersion && s.Object.GetUID() == other.Object.GetUID()
}
