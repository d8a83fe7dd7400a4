// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
)

// Objects whose last reference is deleted, and that are referenced again soon. A function of the
// program that does so each time it is called, such as the body of a loop over Changes, must not
// cause a request each time. So the back-off belongs to the key, for a while.

// backoffTime is for how long the back-off of a key is kept, at most twice.
const backoffTime = time.Minute

// backoffs has those of keys that nothing reads now. WatchStore.mu guards it.
type backoffs struct {
	lately, before map[types.NamespacedName]reflector.Backoff
	timer          *timer // nil, or drops what is too old
}

// keepBackoffLocked keeps the back-off of a reflector that is about to stop, because no owner references
// its object.
func (s *WatchStore[T]) keepBackoffLocked(key types.NamespacedName, r *reflector.Reflector) {
	backoff := r.Backoff()
	if backoff == (reflector.Backoff{}) || s.stopped {
		return
	}
	b := &s.backoffs
	if b.lately == nil {
		b.lately = map[types.NamespacedName]reflector.Backoff{}
	}
	b.lately[key] = backoff
	if b.timer == nil {
		b.timer = s.startTimerLocked(backoffTime, s.dropBackoffsLocked)
	}
}

// takeBackoffLocked returns the back-off for the reflector of a key, and forgets it.
func (s *WatchStore[T]) takeBackoffLocked(key types.NamespacedName) reflector.Backoff {
	b := &s.backoffs
	backoff, ok := b.lately[key]
	if !ok {
		backoff = b.before[key]
	}
	delete(b.lately, key)
	delete(b.before, key)
	return backoff
}

// dropBackoffsLocked is called each backoffTime while there are back-offs.
func (s *WatchStore[T]) dropBackoffsLocked() (again time.Duration) {
	b := &s.backoffs
	if b.before, b.lately = b.lately, nil; len(b.before) == 0 {
		*b = backoffs{}
		return 0
	}
	return backoffTime
}
