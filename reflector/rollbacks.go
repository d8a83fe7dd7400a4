// SPDX-License-Identifier: Apache-2.0

package reflector

import "sync"

// rollbacks counts how often the server was found rolled back, by any reflector
// of a gate. Versions that were seen before the last rollback mean nothing.
type rollbacks struct {
	mu    sync.Mutex
	count uint64
}

func (r *rollbacks) current() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// prove notes that a consistent read, asked for after so many rollbacks, proves
// one more. It reports whether that is news: several reflectors may prove the same
// rollback.
func (r *rollbacks) prove(before uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count != before {
		return false
	}
	r.count++
	return true
}
