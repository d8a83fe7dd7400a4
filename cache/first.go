// SPDX-License-Identifier: Apache-2.0

package cache

// First decides about an object that exists, in a read of it alone (GET) that may overlap
// other reads. It counts only if nothing was seen but by First: an object that is older than
// what comes later is no contradiction, and what comes later and is older is late.
func (o *Order[T]) First(held, read State[T]) (State[T], Verdict) {
	switch order, _ := CompareVersions(read.ResourceVersion, o.version); {
	case o.version == "" && !held.Synced:
	case o.first && order == 0:
		return held, Same
	case !o.first || order < 0:
		return held, Late
	}
	o.version, o.first = read.ResourceVersion, true
	o.newWriter = false // a read that is under way may be older
	return o.next(held, read)
}

// First stores an object from a read of it alone (GET), which may overlap the reads of the
// slot's writer. It reports whether the object is the state now: the slot takes it only if it
// has seen nothing else but older or equal ones of First, and only if Check accepts it. The
// state is then synced. Reads and events that are older come late, and are dropped.
func (s *Slot[T]) First(object T) bool {
	if _, err := s.checked(object); err != nil {
		return false
	}
	object.SetManagedFields(nil)
	read := State[T]{Object: object, Exists: true, Synced: true, ResourceVersion: object.GetResourceVersion()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.replaced {
		return false
	}
	state, verdict := s.order.First(s.Load(), read)
	s.storeLocked(state, verdict)
	return verdict != Late
}
