// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"sync"

	"github.com/refwatch/refwatch/reflector/internal/redact"
	"github.com/refwatch/refwatch/reflector/transport"
)

// life is whether a session lasts. Its methods are safe for concurrent use.
type life struct {
	mu     sync.Mutex
	ctx    context.Context // of requests; nil before the first one, and while the stream is parked and there is none
	cancel context.CancelCauseFunc
	parked bool  // the workers handle the stream
	ended  error // the first cause of the end
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
	if l.cancel != nil {
		l.cancel(cause)
	}
	return l.parked
}

// cause returns why the session has ended from this side, nil if it has not.
func (l *life) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil && l.ctx != nil {
		return context.Cause(l.ctx)
	}
	return l.ended
}

// context returns the context of the session's requests, which ask for a stream that can
// be parked if parks is set. A parked session has none until it sends a request again.
func (l *life) context(parent context.Context, counters *transport.Counters, parks bool) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx == nil {
		ctx := transport.WithCounters(redact.Context(parent), counters)
		if parks {
			ctx = transport.WithParking(ctx)
		}
		l.ctx, l.cancel = context.WithCancelCause(ctx)
		if l.ended != nil {
			l.cancel(l.ended)
		}
	}
	return l.ctx
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
	if l.parked && l.cancel != nil {
		l.cancel(nil)
		l.ctx, l.cancel = nil, nil
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
