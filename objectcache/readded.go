// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
)

// Objects whose last reference is deleted, and that are referenced again soon. A function of the
// program that does so each time it is called, such as the body of a loop over Changes, must not
// cause a request each time. So the back-off belongs to the key, for a while. With
// WatchOptions.FirstReadMaxAge, so does the time of the last reference.

// backoffTime is for how long the back-off of a key is kept at least.
const backoffTime = time.Minute

// backoffs has those of keys that nothing reads now. WatchStore.mu guards it.
type backoffs struct {
	lately, before map[types.NamespacedName]past
	timer          *timer // nil, or drops what is too old
}

// past is what is kept of an object without references.
type past struct {
	backoff reflector.Backoff
	dropped time.Duration // since WatchStore.base, when its last reference was deleted; 0 without FirstReadMaxAge
}

// of returns the past of a key, zero if there is none.
func (b *backoffs) of(key types.NamespacedName) past {
	if p, ok := b.lately[key]; ok {
		return p
	}
	return b.before[key]
}

// keepBackoffLocked keeps the back-off of a reflector that is about to stop, because no owner references
// its object.
func (s *WatchStore[T]) keepBackoffLocked(key types.NamespacedName, r *reflector.Reflector) {
	kept := past{backoff: r.Backoff()}
	if s.options.FirstReadMaxAge > 0 {
		kept.dropped = s.now()
	}
	if kept == (past{}) || s.stopped {
		return
	}
	b := &s.backoffs
	if b.lately == nil {
		b.lately = map[types.NamespacedName]past{}
	}
	b.lately[key] = kept
	if b.timer == nil {
		b.timer = s.startTimerLocked(s.pastTime(), s.dropBackoffsLocked)
	}
}

// takeBackoffLocked returns the back-off for the reflector of a key, and forgets it.
func (s *WatchStore[T]) takeBackoffLocked(key types.NamespacedName) reflector.Backoff {
	b := &s.backoffs
	kept := b.of(key)
	delete(b.lately, key)
	delete(b.before, key)
	return kept.backoff
}

// pastTime returns for how long the past of a key is kept, at most twice.
func (s *WatchStore[T]) pastTime() time.Duration { return max(backoffTime, s.options.FirstReadMaxAge) }

// dropBackoffsLocked is called each pastTime while there are back-offs.
func (s *WatchStore[T]) dropBackoffsLocked() (again time.Duration) {
	b := &s.backoffs
	if b.before, b.lately = b.lately, nil; len(b.before) == 0 {
		*b = backoffs{}
		return 0
	}
	return s.pastTime()
}
