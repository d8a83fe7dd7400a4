// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"net/http/httptrace"
	"sync"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// life is whether a session lasts, and what it has under way. Its methods are safe for
// concurrent use.
type life struct {
	mu       sync.Mutex
	requests *requests // nil before the first one, and while the stream is parked and there is none
	ended    error     // the first cause of the end
	// idle is closed when calls is 0 again. It is nil while nobody waits.
	idle   chan struct{}
	calls  int32 // requests and timers beside the goroutine that runs the session
	over   bool  // no more calls begin
	parked bool  // the workers handle the stream
}

// requests is the context of the requests of a session.
type requests struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// end ends the session, unless it has ended, and its requests. It reports whether a
// worker must handle the end.
func (l *life) end(cause error) (parked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return false
	}
	l.ended = cause
	if l.requests != nil {
		l.requests.cancel(cause)
	}
	return l.parked
}

// cause returns why the session has ended from this side, nil if it has not.
func (l *life) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil && l.requests != nil {
		return context.Cause(l.requests.ctx)
	}
	return l.ended
}

// context returns the context of the session's requests, which ask for a stream that can
// be parked. A parked session has none until it sends a request again. sent is called when a request was sent,
// and arrived when a part of an answer has arrived.
func (l *life) context(parent context.Context, counters *h2.Counters, sent func(error), arrived func()) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests == nil {
		ctx := h2.WithCounters(redact.Context(parent), counters)
		ctx = httptrace.WithClientTrace(listwatch.WithArrivals(ctx, arrived), &httptrace.ClientTrace{
			WroteRequest: func(info httptrace.WroteRequestInfo) { sent(info.Err) },
		})
		ctx, cancel := context.WithCancelCause(h2.WithParking(ctx))
		l.requests = &requests{ctx, cancel}
		if l.ended != nil {
			cancel(l.ended)
		}
	}
	return l.requests.ctx
}

// park makes the workers handle the stream, also if the session has ended.
func (l *life) park() {
	l.mu.Lock()
	l.parked = true
	l.mu.Unlock()
	l.dropContext()
}

// dropContext ends the context of a parked session: no request is under way.
func (l *life) dropContext() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked && l.requests != nil {
		l.requests.cancel(nil)
		l.requests = nil
	}
}

// unpark reports whether the workers handled the stream.
func (l *life) unpark() (was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.parked = l.parked, false
	return was
}

// whileParked calls f, unless the stream is not parked or the session has ended. It does not end
// meanwhile.
func (l *life) whileParked(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked && l.ended == nil {
		f()
	}
}

func (l *life) isParked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked
}

// beginCall counts a call, unless the session is over. The caller ends it with endCall.
func (l *life) beginCall() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.calls++
	return true
}

func (l *life) endCall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls--; l.calls == 0 && l.idle != nil {
		close(l.idle)
	}
}

// finishCalls lets no more calls begin. It returns nil if there are none, or else a
// channel that is closed when all have ended. It is called once.
func (l *life) finishCalls() (ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.calls > 0 {
		l.idle = make(chan struct{})
	}
	return l.idle
}
