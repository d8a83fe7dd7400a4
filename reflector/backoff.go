// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pace says how pauses between attempts grow: doubled each time, jittered, and
// capped.
type pace struct {
	first   time.Duration // the shortest first pause; jitter makes it up to twice as long
	longest time.Duration // bounds a pause, jitter included
}

var (
	// ownPace is that of one reflector. It is short at first, for the Node
	// authorizer needs a moment to see a fresh binding. A fault that ends is
	// noticed within its longest pause.
	ownPace = pace{first: 100 * time.Millisecond, longest: 15 * time.Second}
	// probePace is that of the probes which a [Gate] lets through to a server
	// that is down.
	probePace = pace{first: 250 * time.Millisecond, longest: 5 * time.Second}
)

// healthyAfter is how long a synced stream must have lived for the next pause
// to be a first one again. A server or proxy that closes every stream straight
// away is thereby not hammered.
const healthyAfter = 10 * time.Second

// backoff yields pauses at a pace. The zero value starts at the shortest.
type backoff struct{ steps *wait.Backoff }

func (b *backoff) next(p pace) time.Duration {
	if b.steps == nil {
		b.steps = &wait.Backoff{
			Duration: p.first,
			Factor:   2,
			// wait.Backoff adds jitter on top of its cap.
			Jitter: 1,
			Cap:    p.longest / 2,
			Steps:  64,
		}
	}
	return b.steps.Step()
}

func (b *backoff) reset() { b.steps = nil }
