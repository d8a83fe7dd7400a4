// SPDX-License-Identifier: Apache-2.0

package course

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/internal/states"
)

// All that is known of restores of etcd, by a gate and by each of its reflectors. etcd begins again
// at a lower version then, and gives the versions above it to other writes.
//
// One thing proves a restore to all reflectors of a gate: a consistent read below what its reflector
// has seen since the last one. Each of them then reads in full: a stream above the version of the
// proof may be silent for ever, and a state below it may hold content that was undone, for another
// API server may have had it.
//
// Two things are no proof to others. Different content under one version binds the object alone
// ([states.Order.Read]): API servers of two versions may encode one object differently. A list that
// is older than its stream, or than what a WatchList was asked for, makes its reflector read
// consistently: that read is the proof, or not.

// proofEvery is the shortest time between two proofs. An API server that was not restarted after a
// restore answers consistent reads with versions of before it. A reflector that reads from it, and
// then from another one, would prove a restore each time. Within this time the restore counts for
// that reflector alone.
const proofEvery = 5 * time.Minute

// Restores is what a gate knows of restores. The zero value knows none.
type Restores struct {
	count  uint64 // proved
	proved moment.Moment
}

// Count returns how many restores were proved.
func (r *Restores) Count() uint64 { return r.count }

// Prove takes the proof by a read that was asked for when the gate knew so many restores. Several
// reflectors see one restore, and the first of them proves it. Prove reports whether it is this one,
// and how many restores of those that the gate knows the read is of after.
func (r *Restores) Prove(asked uint64, now moment.Moment) (first bool, after uint64) {
	if asked < r.count {
		return false, asked + 1
	}
	if r.count > 0 && now-r.proved < moment.Moment(proofEvery) {
		return false, asked
	}
	r.count, r.proved = r.count+1, now
	return true, r.count
}

// Seen is how far a reflector has seen its selection. The zero value has seen nothing.
type Seen struct {
	version string // the highest since the last restore that it has read after
	after   uint64 // of the restores of its gate, the read that it has is of after so many
	asked   uint64 // the read under way, or the last one, is of after so many
}

// Version returns the highest version that was seen since the last restore, empty if none was.
func (s *Seen) Version() string { return s.version }

// After returns how many restores the read under way, or the last one, is of after.
func (s *Seen) After() uint64 { return s.asked }

// Ask begins a read when the gate knows so many restores. It reports whether the read must be
// a consistent one: what was seen is of before the last restore.
func (s *Seen) Ask(restores uint64) (consistent bool) {
	s.asked = restores
	return s.version != "" && s.MustRead(restores)
}

// Read takes the version of a complete read that is not older than what was asked for. restored
// reports that it is below what was seen: it is consistent, etcd was restored, and the store begins
// an epoch. proves reports that the gate must take the proof ([Restores.Prove]), and then [Seen.Proved]
// what that has returned: what was seen is of after all restores that were known when the read was
// asked for.
func (s *Seen) Read(version string) (restored, proves bool) {
	if !s.IsAbove(version) {
		return false, false
	}
	s.version = "" // also if the store refuses the read: the next one proves nothing more
	return true, s.after == s.asked
}

// Get takes that a GET has been answered. It has no version, and so proves nothing. restored reports that it is of
// after a restore that the state is not: what was seen is void, and the store begins an epoch.
func (s *Seen) Get() (restored bool) {
	if restored = s.version != "" && s.after < s.asked; restored {
		s.version = ""
	}
	return restored
}

// Proved takes how many restores the read under way is of after.
func (s *Seen) Proved(after uint64) { s.asked = after }

// Stored takes the version of the read under way, which the store has; an empty one is that of a GET.
func (s *Seen) Stored(version string) {
	s.after = s.asked
	if version != "" {
		s.version = version
	}
}

// Event takes the version of an event or a bookmark that the store has.
func (s *Seen) Event(version string) {
	if order, _ := states.CompareVersions(version, s.version); order > 0 {
		s.version = version
	}
}

// IsAbove reports whether a later version than this one was seen.
func (s *Seen) IsAbove(version string) bool {
	order, _ := states.CompareVersions(version, s.version)
	return order < 0
}

// MustRead reports whether the state is of before one of so many restores.
func (s *Seen) MustRead(restores uint64) bool { return s.after < restores }
