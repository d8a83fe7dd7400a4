// SPDX-License-Identifier: Apache-2.0

package simulation

import "time"

// longestRetryAfter bounds what a server asks for, in seconds.
const longestRetryAfter = 32

// retryAfter is how many seconds a server asks for when it drops a request. As
// kube-apiserver's, it doubles while many are dropped, and shrinks by one when
// few are. It looks back for as many seconds as it asks for.
type retryAfter struct {
	seconds int
	second  int64         // the one under way
	raised  int64         // when it was doubled
	drops   map[int64]int // by second
}

// drop counts a dropped request, and returns the seconds to ask for.
func (r *retryAfter) drop(now time.Time) int {
	if r.drops == nil {
		r.drops = map[int64]int{}
	}
	if second := now.Unix(); second != r.second {
		r.second = second
		r.adjust()
	}
	r.drops[r.second]++
	return r.seconds
}

func (r *retryAfter) adjust() {
	dropped := 0
	for second, count := range r.drops {
		switch age := r.second - second; {
		case age > longestRetryAfter:
			delete(r.drops, second)
		case age <= int64(r.seconds):
			dropped += count
		}
	}
	switch {
	case r.second-r.raised >= int64(r.seconds) && dropped >= 3*r.seconds:
		r.seconds = min(2*r.seconds, longestRetryAfter)
		r.raised = r.second
	case dropped < r.seconds && r.seconds > 1:
		r.seconds--
	}
}
