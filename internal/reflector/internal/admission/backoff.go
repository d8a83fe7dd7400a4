// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// backoff is a policy for pauses. The base of the first pause is first. Each further base is factor times the one
// before. A pause is longer than its base by a random share of it, jitter at most. No pause is longer than longest.
type backoff struct {
	first, longest time.Duration
	factor, jitter float64
}

var (
	// memberBackoff is for a member that failed. It is short at first: the Node authorizer needs a moment to see a
	// new binding.
	memberBackoff = backoff{first: 100 * time.Millisecond, longest: 15 * time.Second, factor: 2, jitter: 0.5}
	// unreachableBackoff is for a member that did not reach the server.
	unreachableBackoff = backoff{first: 100 * time.Millisecond, longest: 5 * time.Second, factor: 2, jitter: 1}
	// serverBackoff is for the probes of a server in an outage. It grows slowly: the end of an outage is noticed after
	// at most about a third of its length.
	serverBackoff = backoff{first: 250 * time.Millisecond, longest: 5 * time.Second, factor: 1.3, jitter: 1}
	// resourceBackoff is for the probes of a resource in an outage. The server answers, so probes are cheap, and the
	// next member may be healthy.
	resourceBackoff = backoff{first: 250 * time.Millisecond, longest: 2 * time.Second, factor: 1.3, jitter: 1}
	// throttleBackoff is for a resource after 429s without a success in between. It is for the members that did not
	// get a 429 themselves: the others honor their own Retry-After.
	throttleBackoff = backoff{first: 100 * time.Millisecond, longest: 5 * time.Second, factor: 2, jitter: 1}
)

// maxRetryAfter bounds the Retry-After that is honored. kube-apiserver sends up to 32 s. A proxy may send a day.
const maxRetryAfter = time.Minute

// pause returns the nth pause, n counting from 1.
func (b backoff) pause(n uint32) time.Duration {
	base := float64(b.first) * math.Pow(b.factor, float64(min(max(n, 1), 64)-1))
	return time.Duration(min(base, float64(b.longest)/(1+b.jitter)) * (1 + b.jitter*rand.Float64()))
}

// honored returns how long to wait for a Retry-After. It adds jitter, because servers send many clients the same value
// at the same moment.
func honored(retryAfter time.Duration) time.Duration {
	return min(retryAfter+between(0, retryAfter/2), maxRetryAfter)
}

// between returns a random duration from low to high.
func between(low, high time.Duration) time.Duration {
	return low + time.Duration(rand.Float64()*float64(high-low))
}

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b moment.Moment) moment.Moment {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
