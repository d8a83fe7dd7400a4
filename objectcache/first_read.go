// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

// The age that the first state of an object may have, with WatchOptions.FirstReadMaxAge.

// acceptedAgeLocked returns how old the first state of an entry may be that has no watch yet; 0 if it must not be older
// than the call. A read from before the last reference was deleted is too old, because the program may have seen a
// later state of the object. So is one from before Run: the program may know by then what another store has read.
// Reads that a Get has demanded are not older than the call.
func (s *WatchStore[T]) acceptedAgeLocked(e *entry[T]) time.Duration {
	if e.owners.Reads > e.owners.Added {
		return 0
	}
	return min(s.options.FirstReadMaxAge, s.now()-1-max(s.ranAt, s.backoffs.of(e.key).dropped)) // less, if at the same time
}
