// SPDX-License-Identifier: Apache-2.0

package reflector

// The verbs of a reflector: Follow, Read and Pause.

// mode is what a reflector does.
type mode uint8

const (
	following mode = iota // keeps a stream open
	reading               // pauses after the next read
	pausing               // sends nothing
)

// Follow makes the reflector keep a stream open. It begins a new read, which opens the stream. A stream that
// is open ends first. One that is being opened goes on. If a Read is under way, its state is stored first. Each
// call may send a request, so Follow belongs to a change of what the program needs. To read an open stream's
// state again, call Refresh.
//
// The state that reaches the store next is not older than the call, unless its request was under way then: see
// ReadFor. Status.Synced is not set until then.
//
// Follow, Read, Pause and Stop return at once and do not call OnChange. They may be called at any time, also
// before Run, and while a lock is held that OnChange takes.
//
// If an attempt failed less than 15 s before, the next one waits as it would have without the call, and Status
// has that failure until an attempt succeeds. An attempt that a call gives up after a failure makes that wait
// longer, up to 5 s. An older failure is forgotten. The server's Retry-After is honored in any case.
func (r *Reflector) Follow() { r.restart(following) }

// Read makes the reflector read the selection once, and then do nothing, as after Pause. The read is a list,
// which costs the server less than a stream. If the server refuses the list, it is a WatchList: the caller may be
// allowed to watch only. With [OnlyGets] it is a GET. Until a read succeeds, attempts follow each other as usual. A
// stream that is open, or is being opened, ends first. If a Read is under way, this one sends no other request.
// Otherwise Read is as Follow.
func (r *Reflector) Read() { r.restart(reading) }

// restart begins a session of another mode, or another session of the same.
func (r *Reflector) restart(m mode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = m
	if s := r.session; r.progress.restart(&r.gate.reads, s != nil, m == reading && s != nil && !s.once) {
		s.end(nil)
	}
	r.proceedLocked()
}

// Pause ends the stream or the read that is under way. The reflector sends nothing until
// Follow or Read is called, and its Gate counts it neither as healthy nor as failing. Status
// keeps what it has of the last read. What the stream has delivered before the call may reach
// the store after it.
func (r *Reflector) Pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mode = pausing
	switch {
	case r.session != nil:
		r.progress.drop()
		r.session.end(nil)
	case r.member.Rest():
		r.busy = false
	}
	r.proceedLocked()
}
