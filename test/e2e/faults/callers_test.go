// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"sync"
	"time"

	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// callerTimeout bounds each Get of a caller.
	callerTimeout = 2 * time.Second
	// callerPause is the pause between two Gets of a caller.
	callerPause = 100 * time.Millisecond
)

// startCallers starts a caller for each name, which calls Get repeatedly until stop is called.
func (r *rig) startCallers(names []string) (stop func()) {
	return e2e.Run(r, func(ctx context.Context) error {
		var callers sync.WaitGroup
		for _, name := range names {
			callers.Go(func() {
				for ctx.Err() == nil {
					getCtx, cancel := context.WithTimeout(ctx, callerTimeout)
					_, _ = r.store.Get(getCtx, r.namespace, name)
					cancel()
					_ = pause(callerPause)(ctx)
				}
			})
		}
		callers.Wait()
		return nil
	})
}
