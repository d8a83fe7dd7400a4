// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"time"
)

// kept is how many entries of an object are kept. Of older ones the order is checked, as far as it is known.
const kept = 16

// object is the history of one object.
type object struct {
	name   string
	faults scope

	entries   []entry // the newest states it had, in their order, and first its absence before all writes
	base      int     // the position of entries[0]
	dropped   uint64  // the highest version before them
	absent    int     // the position of the last absence before them
	replaced  int64   // when the first state after that was committed, if it is before them; else 0
	newest    int     // the position of the newest committed entry
	backups   map[uint64]entry
	immutable bool // it was once

	read   int   // the position of the newest state that a Get has returned
	first  int   // the newest position when the first reference began
	synced bool  // a Get has returned a state since certain was 0
	missed int64 // when the first state after read was committed, in nanoseconds; 0 if there is none

	owners    map[string]*owner // those with a name
	possible  int               // references that the store has, or may have
	certain   int               // references that the store has
	lost      int               // how often certain has become 0
	added     int               // references whose addition has begun
	adding    int               // those whose addition has not ended
	addedAt   int64             // the number of the event at which the last addition ended
	since     time.Time         // when certain became 1; zero while there is no reference for certain
	released  time.Time         // when possible became 0
	owner     arrival           // of the newest owner that is left
	last      arrival           // of the newest owner, also if it is gone
	ownerGone int               // how often the newest owner has gone

	requested bool // there was a request since possible was 0
	unserved  bool // none has succeeded
	streams   int

	requests, failed, newOwners window
}

// owner is an owner with a name.
type owner struct {
	references int
	arrival    arrival
}

// arrival is when an owner came.
type arrival struct {
	newest int       // the newest position when the addition of its reference began; 0 if that does not matter any more
	event  int64     // the number of the event at which the addition ended; 0 if it has not
	began  time.Time // when the addition began
	at     time.Time // when it ended
}

// entry is a state that an object had, or may have had. It has no pointers, so that the memory of an object does not
// grow.
type entry struct {
	flags

	state, digest uint64 // hashes of the State and of its Digest
	version       uint64 // zero if it is unknown
	at            int64  // when the write was committed, in nanoseconds
}

type flags struct {
	deleted   bool
	pending   bool // the write is under way
	failed    bool // it was not committed
	known     bool // state is set, by the server or by a reader; of an absence: a reader has returned it
	immutable bool
}

// seed is that of the hashes.
var seed = maphash.MakeSeed()

// hash returns that of a state. Whether it is immutable is part of its digest.
func (s State) hash() uint64 {
	s.Immutable = false
	return maphash.Comparable(seed, s)
}

// number returns the version as a number, and zero if it is none.
func (s State) number() uint64 {
	version, _ := strconv.ParseUint(s.Version, 10, 63)
	return version
}

// identify sets what the server or a reader has returned.
func (e *entry) identify(s State) {
	e.state, e.version, e.known, e.immutable = s.hash(), s.number(), true, s.Immutable
}

// is reports whether an entry is, or may be, a state or an absence.
func (e *entry) is(s State, absent bool) bool {
	switch {
	case e.failed, e.deleted != absent:
		return false
	case absent:
		return true
	case e.known:
		return e.state == s.hash()
	}
	return e.digest == maphash.String(seed, s.Digest)
}

// String describes an entry without its content.
func (e *entry) String() string {
	switch {
	case e.deleted:
		return "its absence"
	case e.version > 0:
		return fmt.Sprintf("version %d", e.version)
	case e.pending:
		return "a write that has not ended"
	}
	return "a write whose version is unknown"
}

// String describes a state without its content. The zero State is an absence.
func (s State) String() string {
	if s == (State{}) {
		return "its absence"
	}
	text := fmt.Sprintf("version %s of UID %s with digest %s", s.Version, s.UID, s.Digest)
	if s.Immutable {
		return "immutable " + text
	}
	return text
}

// at returns the entry at a position, or the oldest one that is kept.
func (o *object) at(position int) *entry { return &o.entries[max(position-o.base, 0)] }

// end is the position after the last entry.
func (o *object) end() int { return o.base + len(o.entries) }

// append adds an entry, and returns its position. It drops old ones, but never the newest committed one.
func (o *object) append(e entry) (position int) {
	if len(o.entries) >= kept {
		drop := min(kept/2, o.newest-o.base)
		for i, old := range o.entries[:drop] {
			o.dropped = max(o.dropped, old.version)
			switch {
			case old.failed:
			case old.deleted:
				o.absent, o.replaced = o.base+i, 0
			case o.replaced == 0:
				o.replaced = old.at // 0 if it is pending
			}
		}
		o.base += drop
		o.entries = o.entries[:copy(o.entries, o.entries[drop:])]
	}
	o.entries = append(o.entries, e)
	return o.end() - 1
}

// find returns the oldest position, not before from, of a state or an absence.
func (o *object) find(s State, absent bool, from int) (position int, ok bool) {
	for position := max(from, o.base); position < o.end(); position++ {
		if o.at(position).is(s, absent) {
			return position, true
		}
	}
	return 0, false
}

// same reports whether two entries are certainly the same state, such as two absences.
func (e *entry) same(other *entry) bool {
	return e.deleted && other.deleted || !e.deleted && !other.deleted && e.known && other.known && e.state == other.state
}

// newestLike returns the newest position of the same state as that of a position. A reader of one may have seen the
// other.
func (o *object) newestLike(position int) int {
	like := o.at(position)
	switch {
	case position >= o.base:
	case position == o.absent:
		like = &entry{flags: flags{deleted: true}}
	default:
		return position
	}
	for newest := o.end() - 1; newest > position && newest >= o.base; newest-- {
		if e := o.at(newest); !e.failed && e.same(like) {
			return newest
		}
	}
	return position
}

// firstAfter returns when the first state after a position was committed, in nanoseconds: of those that are kept, and
// after the last absence before them. It returns 0 if there is none.
func (o *object) firstAfter(position int) (at int64) {
	if position == o.absent && position < o.base && o.replaced != 0 {
		return o.replaced
	}
	for later := max(position+1, o.base); later <= o.newest; later++ {
		if e := o.at(later); !e.pending && !e.failed {
			return e.at
		}
	}
	return 0
}

// committed is called after the entry at a position was committed.
func (o *object) committed(position int) {
	o.newest = max(o.newest, position)
	if position > o.read && o.missed == 0 {
		o.missed = o.at(position).at
	}
}

// isNewest reports whether the state at a position is the newest one, or the same.
func (o *object) isNewest(position int) bool { return o.newestLike(position) >= o.newest }

// locateLocked returns the position of a state that a reader has returned, not before from. It returns false if that
// is a violation, of the given rule if the state is too old.
func (c *Checker) locateLocked(o *object, s State, absent bool, from int, rule, reader string) (position int, ok bool) {
	c.report.Checked++
	o.immutable = o.immutable || s.Immutable
	if !c.writes {
		return c.locateVersionLocked(o, s, absent, from, rule, reader)
	}
	c.report.Decided["S1"]++
	c.report.Decided[rule]++
	if absent {
		c.report.Decided["S4"]++
	}
	if absent && from < o.base && from <= o.absent {
		return o.absent, true // it may be one of those that are not kept
	}
	position, ok = o.find(s, absent, from)
	switch {
	case ok && !absent && !o.at(position).known:
		o.at(position).identify(s)
	case ok:
		o.at(position).known = true
	case from == o.absent && from+1 < o.base && !absent && s.number() <= o.dropped:
		return from + 1, true // as above, and not that absence
	case from != o.absent && from < o.base && !absent && s.number() <= o.dropped:
		return from, true
	case absent:
		c.violateLocked("S4", o.name, "%s reported the object as absent, and it existed since %v", reader, o.at(from))
	default:
		if _, older := o.find(s, false, 0); !older && s.number() > o.dropped {
			c.violateLocked("S1", o.name, "%s returned %v, and no write had this version, UID and digest", reader, s)
			break
		}
		c.violateLocked(rule, o.name, "%s returned %v, want %v or a later write", reader, s, o.at(from))
	}
	return position, ok
}

// locateVersionLocked is locateLocked for a history without writes. The position is the version.
func (c *Checker) locateVersionLocked(o *object, s State, absent bool, from int, rule, reader string) (position int, ok bool) {
	if absent {
		return from, true
	}
	c.report.Decided["S1"]++
	c.report.Decided[rule]++
	version, newest := s.number(), &o.entries[0]
	switch {
	case version == 0:
		c.violateLocked("S1", o.name, "%s returned %v, whose version is not a positive number", reader, s)
	case version < uint64(from):
		c.violateLocked(rule, o.name, "%s returned %v, want version %d or a later one", reader, s, from)
	case version == newest.version && newest.state != s.hash():
		c.violateLocked("S1", o.name, "%s returned %v, and the version was that of another state before", reader, s)
	default:
		if version > newest.version {
			newest.identify(s)
		}
		return int(version), true
	}
	return 0, false
}
