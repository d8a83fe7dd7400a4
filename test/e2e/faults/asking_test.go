// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"sync"
	"time"
)

const (
	// callerTimeout is how long a caller of keepAsking waits in one Get.
	callerTimeout = 2 * time.Second
	// callerPause is how long it waits before the next one.
	callerPause = 100 * time.Millisecond
)

// keepAsking has a caller for each name who Gets it again and again, until stop is called.
func (r *rig) keepAsking(names []string) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	var callers sync.WaitGroup
	for _, name := range names {
		callers.Go(func() {
			for ctx.Err() == nil {
				getCtx, ended := context.WithTimeout(ctx, callerTimeout)
				_, _ = r.store.Get(getCtx, r.namespace, name)
				ended()
				_ = last(callerPause)(ctx)
			}
		})
	}
	stop = func() { cancel(); callers.Wait() }
	r.Cleanup(stop)
	return stop
}
