// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// outages logs when outages begin and end: at level 0, unless there are many; then at level 2. An end has the level of
// its begin: the log has both at level 0, or neither. A line waits while that of another reflector blocks; it is lost
// if its reflector leaves meanwhile.
type outages struct {
	server, resources flowcontrol.PassiveRateLimiter // bound the begins at level 0

	mu      sync.Mutex
	levels  map[scope]int // of the last begin
	writer  *Reflector    // whose line is being written; nil: none
	written chan struct{} // closed when it is
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

func newOutages() outages {
	return outages{server: newLineLimiter(), resources: newLineLimiter(), levels: map[scope]int{}}
}

// log logs a change on behalf of r, unless that has left. A gate logs one change at a time.
func (o *outages) log(r *Reflector, change admission.Outage) {
	o.mu.Lock()
	level := o.levelLocked(change)
	if r.left {
		o.mu.Unlock()
		return
	}
	o.writer, o.written = r, make(chan struct{})
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		close(o.written)
		o.writer = nil
	}()
	write(r, level, change)
}

// leave notes that r has left, and waits for the line that is being written on its behalf, if there is one: no line
// outlives its reflector.
func (o *outages) leave(r *Reflector) {
	o.mu.Lock()
	r.left = true
	var written chan struct{}
	if o.writer == r {
		written = o.written
	}
	o.mu.Unlock()
	if written != nil {
		<-written
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
