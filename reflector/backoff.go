// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pace says how pauses between attempts grow: by a factor each time, jittered,
// and capped.
type pace struct {
	first   time.Duration // the shortest first pause; jitter makes it up to twice as long
	longest time.Duration // bounds a pause, jitter included
	factor  float64
}

var (
	// ownPace is that of one reflector. It is short at first, for the Node
	// authorizer needs a moment to see a fresh binding. A fault that ends is
	// noticed within its longest pause.
	ownPace = pace{first: 100 * time.Millisecond, longest: 15 * time.Second, factor: 2}
	// probePace is that of the probes which a [Gate] lets through to a server
	// that is down. It grows slowly, so that a server which was away for a
	// moment is not missed for as long again: the pauses are about a third of
	// the outage until then.
	probePace = pace{first: 250 * time.Millisecond, longest: 5 * time.Second, factor: 1.3}
)

// healthyAfter is how long a synced stream must have lived for the next pause
// to be a first one again. A server or proxy that closes every stream straight
// away is thereby not hammered.
const healthyAfter = 10 * time.Second

// longestRetryAfter bounds what a server may ask for. kube-apiserver asks for a
// second; whoever asks for a day, a proxy perhaps, is asked again before.
const longestRetryAfter = time.Minute

// backoff yields pauses at a pace. The zero value starts at the shortest.
type backoff struct{ steps *wait.Backoff }

func (b *backoff) next(p pace) time.Duration {
	if b.steps == nil {
		b.steps = &wait.Backoff{
			Duration: p.first,
			Factor:   p.factor,
			// wait.Backoff adds jitter on top of its cap.
			Jitter: 1,
			Cap:    p.longest / 2,
			Steps:  64,
		}
	}
	return b.steps.Step()
}

func (b *backoff) reset() { b.steps = nil }
