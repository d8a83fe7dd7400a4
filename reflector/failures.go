// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/moment"
)

// failures are the attempts that have failed.
type failures struct {
	inRow        int // since the last complete read
	lastError    error
	failedAt     moment.Moment // when that was
	refusedSince moment.Moment // since when all were refused; 0 if the last answer was no refusal
	polls        bool          // the last one was of the watch after a list
	malformed    uint64        // of all
	lastClass    failure.Class // of the last one, None if all is well
}

// forget forgets those for which the next attempt does not wait.
func (f *failures) forget() {
	if f != nil {
		f.inRow, f.refusedSince, f.lastClass = 0, 0, failure.None
	}
}

// class returns that of the last failure, None if all is well.
func (f *failures) class() failure.Class {
	if f == nil {
		return failure.None
	}
	return f.lastClass
}

// failed records why a session ended, and whether the list has worked and the watch after it does
// not. It reports whether the class of the failure is another one than before.
func (p *progress) failed(err error, polls bool) (class failure.Class, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	class = failure.Of(err)
	p.consistent = p.consistent || class.NeedsConsistentRead()
	if p.failures == nil {
		p.failures = &failures{}
	}
	if p.failures.polls && !polls {
		p.failures.refusedSince = 0 // only watches were refused
	}
	p.failures.polls = polls
	return class, p.failures.add(err, class)
}

// add adds a failure. It reports whether its class is another one than before.
func (f *failures) add(err error, class failure.Class) (changed bool) {
	f.inRow++
	f.lastError, f.failedAt = err, moment.Now()
	switch {
	case !class.IsRefusal():
		f.refusedSince = 0
	case f.refusedSince == 0:
		f.refusedSince = f.failedAt
	}
	if class == failure.Malformed {
		f.malformed++
	}
	changed = f.lastClass != class
	f.lastClass = class
	return changed
}
