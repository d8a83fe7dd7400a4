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
// its begin: the log has both at level 0, or neither. If two goroutines report changes at a time, their lines may swap,
// and have each other's level. The line of a reflector that leaves at that time is lost.
type outages struct {
	server, resources flowcontrol.PassiveRateLimiter // bound the begins at level 0

	mu      sync.Mutex
	written sync.Cond     // signaled when a line was written
	levels  map[scope]int // of the last begin
}

// observer is the reflector as the observer of its member.
type observer struct{ *Reflector }

func (o observer) OutageBegan() { o.changed() }

func (o observer) OutageChanged(change admission.Outage) { o.gate.outages.log(o.Reflector, change) }

// verifying is the reflector as the observer of a member that verifies its stream.
type verifying struct{ observer }

// OutageBegan does nothing: the reflector itself does not wait.
func (verifying) OutageBegan() {}

// scope is what an outage is of.
type scope struct {
	server   bool
	resource string
}

// log logs a change on behalf of r, unless that has left.
func (o *outages) log(r *Reflector, change admission.Outage) {
	if level, ok := o.begin(r, change); ok {
		defer o.end(r)
		write(r, level, change)
	}
}

// begin returns the level of the line about a change, and counts a line that is being written for r.
func (o *outages) begin(r *Reflector, change admission.Outage) (level int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	level = o.levelLocked(change)
	if r.left {
		return level, false
	}
	r.lines++
	return level, true
}

// end says that a line for r was written.
func (o *outages) end(r *Reflector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.lines--
	o.written.Broadcast()
}

// leave lets the gate log nothing more for r. It waits for the lines that are being written: none outlives its
// reflector.
func (o *outages) leave(r *Reflector) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for r.left = true; r.lines > 0; {
		o.written.Wait()
	}
}

// write writes a line.
func write(r *Reflector, level int, change admission.Outage) {
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
