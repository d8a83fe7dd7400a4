// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"

	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Runner is what a controller-runtime manager runs as a [Runnable]: a manager.Manager or
// an objectcache.Store.
type Runner interface {
	// Run blocks until ctx ends and all goroutines have ended.
	Run(ctx context.Context) error
}

// Runnable runs a [Runner] on each replica, whether or not it is the leader. It
// implements manager.Runnable and manager.LeaderElectionRunnable of controller-runtime.
type Runnable struct {
	runner Runner
}

// NewRunnable returns a runnable for Add of controller-runtime's manager. Its Start returns an error if the runner
// is nil.
func NewRunnable(runner Runner) Runnable { return Runnable{runner} }

// Start runs the runner until ctx ends, and returns its error. The runner logs to the
// logger of ctx, else to that of controller-runtime.
func (r Runnable) Start(ctx context.Context) error {
	if isNil(r.runner) {
		return errors.New("the runner is nil: pass a manager or a store to NewRunnable")
	}
	return r.runner.Run(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("refwatch")))
}

// NeedLeaderElection returns false.
func (r Runnable) NeedLeaderElection() bool { return false }
