// SPDX-License-Identifier: Apache-2.0

package history

import (
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// kept is how many writes of an object are remembered. Of older ones only the order is checked.
const kept = 8

// Object is the history of one object. Its methods may be called from any goroutine, but the writes to the object must
// follow each other. Make one with [History.Object].
type Object struct {
	history *History
	name    string

	mu     sync.Mutex
	writes [kept]write // the newest ones: write n is at n % kept. Write 0 is the absence before the first
	last   int         // the number of the newest write that has begun
	acked  int         // the number of the newest write that was acknowledged
	floor  int         // no Get that begins now may return an older write

	possible int  // references that the cache has, or may have
	certain  int  // references that the cache has
	lost     int  // how often certain has become 0
	synced   bool // a Get has returned a state since certain was 0

	yielded int // the newest write that Changes yielded
	repeats int // how often it yielded a write again
	added   int // references that were added so far
}

// write is a write to an object. Its state is known when the write was acknowledged, or was seen by a reader. It has no
// pointers, so that the memory of an object does not grow.
type write struct {
	number  int
	deleted bool   // also for write 0
	failed  bool   // not committed
	known   bool   // state is set
	state   uint64 // a hash of the State
}

// seed is that of the hashes.
var seed = maphash.MakeSeed()

// BeginWrite returns the number of a creation or update that begins now.
func (o *Object) BeginWrite() (number int) { return o.begin(false) }

// BeginDelete returns the number of a deletion that begins now.
func (o *Object) BeginDelete() (number int) { return o.begin(true) }

func (o *Object) begin(deleted bool) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.writes[o.last%kept] = write{number: o.last, deleted: deleted}
	return o.last
}

// Acknowledge ends a write that the server has acknowledged. A deletion has neither UID nor version.
func (o *Object) Acknowledge(number int, uid types.UID, version string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.acked = number
	if w := o.writeLocked(number); !w.deleted {
		o.identifyLocked(w, State{Write: number, UID: uid, Version: version}, "the server")
	}
}

// Abandon ends a write that the server did not commit.
func (o *Object) Abandon(number int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := o.writeLocked(number)
	if w.failed = true; w.known {
		o.history.Violate("%s: a Get returned write %d, which the server did not commit", o.name, number)
	}
}

// Exists reports whether the object exists after the newest acknowledged write.
func (o *Object) Exists() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.acked > 0 && !o.writeLocked(o.acked).deleted
}

// writeLocked returns a write, or nil if it is too old.
func (o *Object) writeLocked(number int) *write {
	if w := &o.writes[number%kept]; w.number == number && number <= o.last {
		return w
	}
	return nil
}

// identifyLocked compares the UID and version of a write with those that are known of it.
func (o *Object) identifyLocked(w *write, s State, source string) {
	state := maphash.Comparable(seed, s)
	if w.known && w.state != state {
		o.history.Violate("%s: write %d: %s returned UID %s and version %s, and another one before",
			o.name, s.Write, source, s.UID, s.Version)
	}
	w.known, w.state = true, state
}

// absentLocked returns the oldest absence that is not older than a write, and false if there is none. If the writes are
// too old to know, it returns the given one.
func (o *Object) absentLocked(from int) (int, bool) {
	if o.writeLocked(from) == nil {
		return from, true
	}
	for number := from; number <= o.last; number++ {
		if w := o.writeLocked(number); w.deleted && !w.failed {
			return number, true
		}
	}
	return 0, false
}
