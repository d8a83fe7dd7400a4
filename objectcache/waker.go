// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"
)

// waker wakes the Gets that wait for one object. It is guarded by the mu of the store.
// The zero value is ready for use.
type waker struct {
	wake chan struct{} // nil if no Get has asked for it since the last wake
}

// wakeChanLocked returns a channel that is closed when a Get has to check again.
func (w *waker) wakeChanLocked() <-chan struct{} {
	if w.wake == nil {
		w.wake = make(chan struct{})
	}
	return w.wake
}

// wakeLocked makes every Get that waits check again.
func (w *waker) wakeLocked() {
	if w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
}

// sleep waits for wake, for the end of ctx, and for limit unless it is negative.
func sleep(ctx context.Context, wake <-chan struct{}, limit time.Duration) {
	var expired <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-wake:
	case <-ctx.Done():
	case <-expired:
	}
}
