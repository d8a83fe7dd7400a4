// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// firstDelay is the shortest first pause; jitter makes it up to twice as
	// long. It is short, for the Node authorizer needs a moment to see a fresh
	// binding.
	firstDelay = 100 * time.Millisecond
	// longestDelay bounds a pause, jitter included: a fault that ends is
	// noticed within it.
	longestDelay = 15 * time.Second
	// healthyAfter is how long a synced stream must have lived for the next
	// pause to be a first one again. A server or proxy that closes every stream
	// straight away is thereby not hammered.
	healthyAfter = 10 * time.Second
)

// backoff yields the pauses between attempts: doubled each time, jittered, and
// capped. The zero value starts at the shortest.
type backoff struct{ steps *wait.Backoff }

func (b *backoff) next() time.Duration {
	if b.steps == nil {
		b.steps = &wait.Backoff{
			Duration: firstDelay,
			Factor:   2,
			// wait.Backoff adds jitter on top of its cap.
			Jitter: 1,
			Cap:    longestDelay / 2,
			Steps:  64,
		}
	}
	return b.steps.Step()
}

func (b *backoff) reset() { b.steps = nil }
