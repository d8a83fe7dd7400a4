// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// otherKinds are the kinds of owners until the first one of the kind of a source.
type otherKinds struct {
	mu    sync.Mutex
	kinds map[string]bool // at most maxOtherKinds; nil after stop
	timer *time.Timer     // nil before the first kind
}

const maxOtherKinds = 5

// otherKindsNote says that a source has had owners of other kinds only. That is so while there is no
// owner of its kind yet, and if the kind is not that of SetReferences.
const otherKindsNote = "The source enqueues nothing: all owners of objects that have changed are of other kinds. " +
	"If there are owners of its kind, pass NewSource the kind that SetReferences is called with"

// add notes a kind. A minute after the first one it is logged, unless stop is called before.
func (o *otherKinds) add(ctx context.Context, want, kind string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kinds == nil || len(o.kinds) == maxOtherKinds {
		return
	}
	o.kinds[kind] = true
	if o.timer == nil {
		o.timer = time.AfterFunc(silentAfter, func() {
			if kinds := o.stop(); kinds != nil {
				logf.FromContext(ctx).WithName("refwatch").Info(otherKindsNote, "kind", want, "others", slices.Sorted(maps.Keys(kinds)))
			}
		})
	}
}

// stop ends the notes, and returns the kinds at its first call.
func (o *otherKinds) stop() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	kinds := o.kinds
	o.kinds = nil
	if o.timer != nil {
		o.timer.Stop()
	}
	return kinds
}
