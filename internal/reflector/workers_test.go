// SPDX-License-Identifier: Apache-2.0

package reflector

import "testing"

// A timer of the workers that is stopped as it fires starts no worker. That it was stopped shows only here: whether the
// worker that stops it or the timer is first is up to the scheduler.
func TestReliefThatWasStopped(t *testing.T) {
	w := &workers{queue: []*session{{}}, running: minWorkers}
	w.addWorkers()
	if got, want := w.running, minWorkers; got != want {
		t.Errorf("got %d workers, want %d", got, want)
	}
}
