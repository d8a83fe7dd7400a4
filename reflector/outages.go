// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// outages logs when outages begin and end: at level 0, unless there are many; then at level 2. An end has the level of
// its begin, so that no line tells of an outage alone. An outage whose last reflector is stopped has no end.
type outages struct {
	lines flowcontrol.PassiveRateLimiter // bounds those at level 0

	mu     sync.Mutex
	levels map[string]int // of the last begin, by resource, which is empty for the server
}

func newOutages() outages {
	return outages{lines: newLineLimiter(), levels: map[string]int{}}
}

// log logs a change, on behalf of a reflector with that context, which may have ended.
func (o *outages) log(ctx context.Context, gate string, change admission.Outage) {
	level := o.level(change)
	if ctx.Err() != nil {
		return
	}
	logger := klog.FromContext(ctx).V(level)
	if gate != "" {
		logger = logger.WithValues("gate", gate)
	}
	if change.Resource != "" {
		logger = logger.WithValues("resource", change.Resource)
	}
	if change.Over {
		logger.Info("Outage ended", "lasted", time.Since(change.Since).Round(time.Millisecond))
		return
	}
	logger.Info("Outage began, one request at a time will try", "err", outageError(change.Kind, change.Cause))
}

// level returns the level of the line about a change.
func (o *outages) level(change admission.Outage) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !change.Over {
		o.levels[change.Resource] = 0
		if !o.lines.TryAccept() {
			o.levels[change.Resource] = 2
		}
	}
	return o.levels[change.Resource]
}

// newLineLimiter returns what bounds the lines of a gate at level 0.
func newLineLimiter() flowcontrol.PassiveRateLimiter {
	return flowcontrol.NewTokenBucketPassiveRateLimiter(loggedPerSecond, loggedAtOnce)
}
