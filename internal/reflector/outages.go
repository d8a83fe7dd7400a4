// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// outages logs when outages begin and end: at level 0, unless there are many; then at level 2. An end has the level of
// its begin: the log has both at level 0, or neither. Two lines may swap if two goroutines write at a time.
type outages struct {
	server, resources flowcontrol.PassiveRateLimiter // bound the begins at level 0

	mu     sync.Mutex
	ended  sync.Cond     // signaled by end
	levels map[scope]int // of the last begin
}

// observer is the reflector as the observer of its member.
type observer struct{ *Reflector }

func (o observer) OutageBegan() {
	if o.gate.outages.enter(o.Reflector) {
		defer o.gate.outages.end(o.Reflector)
		o.changed()
	}
}

func (o observer) OutageChanged(change admission.Outage) (report func()) {
	return o.gate.outages.line(o.Reflector, change)
}

// verifying is the reflector as the observer of a member that verifies its stream.
type verifying struct{ observer }

// OutageBegan does nothing: the reflector itself does not wait.
func (verifying) OutageBegan() {}

// scope is what an outage is of.
type scope struct {
	server   bool
	resource string
}

// line returns what writes the line about a change, and counts it as one that is being written for r.
func (o *outages) line(r *Reflector, change admission.Outage) (write func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	level := o.levelLocked(change)
	r.told++
	return func() {
		defer o.end(r)
		writeLine(r, level, change)
	}
}

// enter counts a call for r, until end. It returns false if r has left.
func (o *outages) enter(r *Reflector) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.left {
		return false
	}
	r.told++
	return true
}

// end says that a line for r was written, or that a call for it has returned.
func (o *outages) end(r *Reflector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.told--
	o.ended.Broadcast()
}

// leave waits for the lines and calls that are under way for r: none outlives its reflector.
func (o *outages) leave(r *Reflector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r.left = true; r.told > 0; {
		o.ended.Wait()
	}
}

// writeLine writes a line.
func writeLine(r *Reflector, level int, change admission.Outage) {
	logger := klog.FromContext(r.ctx).V(level)
	if name := r.gate.name; name != "" {
		logger = logger.WithValues("gate", name)
	}
	if !change.Server {
		logger = logger.WithValues("resource", change.Resource)
	}
	switch lasted := change.Until.Sub(change.Since).Round(time.Millisecond); {
	case change.Until.IsZero():
		logger.Info("Outage began, one request at a time will try", "err", change.Cause)
	case change.By != admission.Synced:
		logger.Info("Outage ended, the server answers with another failure", "lasted", lasted)
	default:
		logger.Info("Outage ended", "lasted", lasted)
	}
}

// levelLocked returns the level of the line about a change.
func (o *outages) levelLocked(change admission.Outage) int {
	of := scope{change.Server, change.Resource}
	if change.Until.IsZero() {
		lines := o.resources
		if change.Server {
			lines = o.server
		}
		o.levels[of] = 0
		if !lines.TryAccept() {
			o.levels[of] = 2
		}
	}
	return o.levels[of]
}

// newLineLimiter returns what bounds the lines of a gate at level 0.
func newLineLimiter() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiter(loggedPerSecond, loggedAtOnce)
}
