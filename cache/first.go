// SPDX-License-Identifier: Apache-2.0

package cache

// First decides about an object that exists, in a read of it alone (GET) that may overlap
// other reads. It counts only if nothing was seen: an object that is older than what comes
// later is no contradiction, and what comes later and is older is late.
func (o *Order[T]) First(held, read State[T]) (State[T], Verdict) {
	if held.Synced || o.version != "" {
		return held, Late
	}
	o.version, o.newWriter = read.ResourceVersion, false // a read that is under way may be older
	return o.next(held, read)
}

// First stores an object from a read of it alone (GET), which may overlap the reads of the
// slot's writer. It reports whether the object is the state now: the slot stores it only if
// it has seen nothing, and only if Check accepts it. The state is then synced. Reads and
// events that are older come late, and are dropped.
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
	if verdict == Newer {
		s.storeLocked(state, verdict)
	}
	return verdict == Newer
}
