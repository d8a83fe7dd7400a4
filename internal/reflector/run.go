// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// Run keeps the store equal to the selection until ctx ends or Stop is called. What it
// started has ended when it returns. A second call, also after Start, returns at once.
func (r *Reflector) Run(ctx context.Context) {
	ended := make(chan struct{})
	if !r.Start(ctx, func() { close(ended) }) {
		return
	}
	defer context.AfterFunc(ctx, r.Stop)()
	<-ended
}

// Start is Run for a program with many reflectors: it returns at once, and no goroutine waits for the end of
// each. ended is called on a goroutine of the reflector, or of the gate, when all that the reflector started has
// ended. It must return soon. The caller must call Stop when ctx ends: that fails the requests under way, but
// does not end a parked stream. Start does nothing and returns false if the reflector was started before. After
// Stop it calls ended at once.
func (r *Reflector) Start(ctx context.Context, ended func()) bool {
	if !r.start(ctx, ended) {
		klog.FromContext(ctx).Error(nil, "A reflector runs only once", "reflector", r.String())
		return false
	}
	return true
}

func (r *Reflector) start(ctx context.Context, ended func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx != nil {
		return false
	}
	r.ctx, r.ended = ctx, ended
	r.startResync()
	r.proceedLocked()
	return true
}

// proceedLocked asks for the admission of the next session, or ends the reflector, unless
// either is under way. It does nothing in a pause, and before Start.
func (r *Reflector) proceedLocked() {
	switch {
	case r.ctx == nil || r.busy:
	case r.stopped:
		r.busy = true
		go r.leave()
	case r.mode != pausing:
		r.busy = true
		if !r.member.Resume() {
			r.progress.forgetFailures()
			r.reason = openFirst
		}
		r.member.Request(r.attempt)
	}
}

// proceed follows a session that has ended, or an admission without one.
func (r *Reflector) proceed() {
	r.mu.Lock()
	over := r.overLocked()
	if !over {
		r.busy = false
		if r.mode == pausing {
			r.member.Rest()
		}
		r.proceedLocked()
	}
	r.mu.Unlock()
	if over {
		r.leave()
	}
}

// attempt runs a session that is admitted, on a goroutine of its own, until it ends or
// its stream is parked. A stream that cannot be parked lasts for hours, so attempt keeps
// little on the stack.
func (r *Reflector) attempt() {
	s := r.begin()
	if s == nil {
		r.proceed()
		return
	}
	returned := false
	defer func() {
		if !returned { // a source or a store has ended the goroutine
			s.abandon()
		}
	}()
	s.use(s.verb)
	parked, err := s.runStream()
	if returned = true; !parked {
		s.conclude(err)
	}
}

// begin returns the session that is admitted, nil if the reflector must end or pause.
func (r *Reflector) begin() *session {
	s := r.newSession()
	switch {
	case s == nil:
		r.member.Release(admission.Outcome{})
	case !s.once && s.opens():
		r.counters.countOpen(r.reason)
	}
	return s
}

// conclude ends a session, for the reason that reading its stream has returned, waits for
// all that it has started, and lets the reflector proceed.
func (s *session) conclude(err error) {
	if ended := s.finish(err); ended != nil {
		<-ended
	}
	s.r.next(s)
}

// next follows a session that has ended. If OnChange ends the goroutine, the reflector
// ends.
func (r *Reflector) next(s *session) {
	returned := false
	defer func() {
		if returned {
			r.proceed()
		} else {
			r.leave()
		}
	}()
	r.finish(s, s.cause())
	returned = true
}

// abandon ends the reflector: a source, a store or OnChange has ended the goroutine that
// ran the session. If next was under way, it has ended the reflector.
func (s *session) abandon() {
	r := s.r
	r.mu.Lock()
	underWay := r.session == s
	if underWay {
		r.session = nil
		r.progress.sessionEnded(r.counters)
	}
	r.mu.Unlock()
	if !underWay {
		return
	}
	klog.FromContext(r.ctx).Error(nil, "A function of the program has ended the goroutine of a reflector", "reflector", r.String())
	r.gate.streams.remove(s)
	if ended := s.finish(nil); ended != nil {
		<-ended
	}
	r.leave()
}

// leave is the end of the reflector.
func (r *Reflector) leave() {
	if r.ctx.Err() == nil { // the program goes on
		r.logRecovery(true)
	}
	r.verbs.leave()
	r.member.Leave()
	r.member.Report() // and the gate begins no line for r from now on
	r.stopResync()
	r.gate.outages.leave(r)
	r.ended()
}
