// SPDX-License-Identifier: Apache-2.0

package reflector

// ReadFor makes the next read that begins a consistent one, whatever version is
// known, and gives it a number: once it has reached the store, Status.ReadFor is
// at least number. A read under way is left alone, and none is begun for this;
// to have one now, call Refresh. Numbers must not decrease.
func (r *Reflector) ReadFor(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readFor = max(r.readFor, number)
}

// noteOpened notes that the session's stream is open.
func (s *session) noteOpened() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.opened = true
}

// describeLocked fills in what is known of the session under way, nil if none
// is. Reflector.mu is held.
func (s *session) describeLocked(status *Status) {
	switch {
	case s == nil:
	case s.synced:
		status.Streaming = s.opened
	default:
		status.AskedAt = s.askedAt
	}
}
