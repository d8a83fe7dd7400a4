// SPDX-License-Identifier: Apache-2.0

package reflector

import "github.com/refwatch/refwatch/internal/states"

// What a rollback of the server, which a consistent read has proved, does to other reflectors of the
// gate: see openStreams.serverRolledBack.

// rollback is the last one that a gate knows.
type rollback struct {
	count    uint64 // of all
	restored string // the version of the read that has proved it
	reached  string // the highest version of a consistent read of the resource that began after that, or restored
}

// refreshBeyond is called after a rollback of the server to a version, and for a state that is stored
// after that. A stream that has seen later versions may be silent for ever, and ends.
func (r *Reflector) refreshBeyond(version string, rollbacks uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress.refreshBeyond(version, rollbacks, r.session != nil) {
		r.session.end(nil)
	}
}

// refreshBeyond is refresh, with a consistent read, for a selection that has seen versions
// above the given one, and no consistent read since so many rollbacks of the server.
func (p *progress) refreshBeyond(version string, rollbacks uint64, active bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	order, _ := states.CompareVersions(version, p.version)
	if order >= 0 || p.rollbacks > rollbacks || p.isReadingLocked(active) {
		return false
	}
	p.consistent = true
	p.current.refreshed = p.current.refreshed || active
	p.current.beyond = p.current.beyond || active
	return active
}
