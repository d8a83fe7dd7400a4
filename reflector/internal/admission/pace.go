// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"math/rand/v2"
	"time"
)

// pace says how pauses grow: from first, by factor each time, up to longest.
// Jitter makes a pause up to twice as long as first, and never longer than longest.
type pace struct {
	first, longest time.Duration
	factor         float64
}

var (
	// memberPace is that of one member. It is short at first, for the Node
	// authorizer needs a moment to see a fresh binding.
	memberPace = pace{first: 100 * time.Millisecond, longest: 15 * time.Second, factor: 2}
	// unreachablePace is that of one member which reached no server.
	unreachablePace = pace{first: 100 * time.Millisecond, longest: 5 * time.Second, factor: 2}
	// outagePace is that of probes of a server that is away. It grows slowly, so
	// that an outage is noticed to be over after about a third of its length.
	outagePace = pace{first: 250 * time.Millisecond, longest: 5 * time.Second, factor: 1.3}
	// resourcePace is that of probes of a resource that fails. The server answers,
	// so probes are cheap, and the next member may be healthy.
	resourcePace = pace{first: 250 * time.Millisecond, longest: 2 * time.Second, factor: 1.3}
	// throttledPace is that of a resource after 429s with no success in between. Each
	// member honors its own Retry-After; these pauses are for the other members.
	throttledPace = pace{first: 100 * time.Millisecond, longest: 5 * time.Second, factor: 2}
)

const (
	// shortestWaited and longestWaited bound the pause, from the end of the last
	// attempt on, of a failing member that a caller waits for.
	shortestWaited = 1100 * time.Millisecond
	longestWaited  = 1600 * time.Millisecond
	// stableAfter is how long a stream must have lived for the next pause to be a
	// first one again. A server or proxy that closes every stream at once is
	// thereby not hammered.
	stableAfter = 10 * time.Second
	// longestRetryAfter bounds what a server may ask for. kube-apiserver asks for
	// up to 32 s. A proxy that asks for a day is asked again before.
	longestRetryAfter = time.Minute
)

// pause returns the nth pause, n counting from 1.
func (p pace) pause(n uint32) time.Duration {
	base := float64(p.first) * math.Pow(p.factor, float64(min(max(n, 1), 64)-1))
	return time.Duration(min(base, float64(p.longest)/2) * (1 + rand.Float64()))
}

// retryAfter returns what is honored of a Retry-After. Servers give many clients
// the same one at the same moment, so it is jittered.
func retryAfter(asked time.Duration) time.Duration {
	return min(asked+between(0, asked/2), longestRetryAfter)
}

func between(low, high time.Duration) time.Duration {
	return low + time.Duration(rand.Float64()*float64(high-low))
}
