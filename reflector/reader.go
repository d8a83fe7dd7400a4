// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/refwatch/refwatch/reflector/internal/admission"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// ReadTimeout is how long an attempt of a [Reader] may take. The read of one object
// takes milliseconds. An attempt that hangs counts against the limit of the [Gate] for
// the first seconds only.
const ReadTimeout = 15 * time.Second

// Reader reads one selection when it is asked to, for a program that keeps no stream
// open. A [Gate] admits each of its attempts among the openings of reflectors, and both
// share what they learn about the server. Make one with [NewReader].
type Reader struct {
	name     string
	gate     *Gate
	member   *admission.Member
	progress progress
	counters *Counters
	explain  func(error) error
}

// NewReader returns a reader that sends nothing until Read. OnChange is called when an
// outage begins that others have noticed, and Read waits. BlockingStreams,
// ResyncPeriod and ExpectedType have no effect.
func NewReader(options Options) *Reader {
	r := &Reader{
		name: cmp.Or(options.Name, "reader"), gate: options.Gate, counters: cmp.Or(options.Counters, &Counters{}), explain: options.Explain,
	}
	if r.gate == nil {
		r.gate = NewGate(GateOptions{})
	}
	r.member = r.gate.admission.Join(options.Resource, options.OnChange)
	return r
}

// Read makes one attempt: it waits for admission, and then calls read, which must
// return when its context ends. After a failure the next attempt is admitted after a
// pause, which grows to 15 s. The error is that of read, without object data, as
// [listwatch.Source] describes. It is that of ctx if ctx ended first, and then nothing
// was learned. Read is called from one goroutine at a time.
func (r *Reader) Read(ctx context.Context, read func(context.Context) error) error {
	if err := r.member.Acquire(ctx); err != nil {
		return err
	}
	r.progress.ask(0, &r.gate.reads, consistentRead{})
	err := attemptRead(ctx, read)
	if ctx.Err() != nil {
		r.progress.sessionEnded()
		r.member.Release(admission.Outcome{})
		return ctx.Err()
	}
	r.counters.CountRead(err)
	if err == nil {
		r.progress.stateStored("", true)
	} else {
		class, changed := r.progress.failed(err)
		r.gate.logFailure(ctx, r.name, class, changed, err, r.explain)
	}
	r.progress.sessionEnded()
	r.member.Release(failure.Outcome(err))
	return err
}

// attemptRead calls read, which may panic, with the time-out.
func attemptRead(ctx context.Context, read func(context.Context) error) (err error) {
	defer redact.Panic(&err)
	ctx, cancel := context.WithTimeoutCause(redact.Context(ctx), ReadTimeout, failure.ErrNoAnswer)
	defer cancel()
	err = read(ctx)
	if err != nil && errors.Is(context.Cause(ctx), failure.ErrNoAnswer) {
		return failure.ErrNoAnswer
	}
	return redact.Error(err)
}

// Status returns the state of the reader. Streaming, ReadFor and ResourceVersion are
// not set.
func (r *Reader) Status() Status {
	return statusOf(r.member, &r.progress)
}

// Expedite says that a caller waits: see [Reflector.Expedite].
func (r *Reader) Expedite() { r.member.Expedite() }

// Stop makes a Read that waits for admission return. No more attempts are admitted.
func (r *Reader) Stop() { r.member.Leave() }
