// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// keyQueue holds the keys that a subscriber has to look at, each once.
type keyQueue = workqueue.Typed[types.NamespacedName]

// subscribers are the queues of all callers that range over Changes.
type subscribers map[*keyQueue]struct{}

// notify adds a key to every queue.
func (s subscribers) notify(key types.NamespacedName) {
	for queue := range s {
		queue.Add(key)
	}
}

// shutDown ends every queue.
func (s subscribers) shutDown() {
	for queue := range s {
		queue.ShutDown()
	}
}

// notice is a notification of the subscribers of a key that is due later.
type notice struct {
	at    time.Time
	timer *timer
}

// notifyLaterLocked notifies the subscribers of a key after a duration, or earlier.
// There is at most one notice for each key.
func (s *WatchStore[T]) notifyLaterLocked(key types.NamespacedName, after time.Duration) {
	at, due := time.Now().Add(after), s.notices[key]
	if s.stopped || due.timer != nil && !due.at.After(at) {
		return
	}
	s.stopTimerLocked(due.timer)
	s.notices[key] = notice{at, s.startTimerLocked(after, func() time.Duration {
		delete(s.notices, key)
		s.subscribers.notify(key)
		return 0
	})}
}

// cancelNoticeLocked drops the notice of a key, if there is one.
func (s *WatchStore[T]) cancelNoticeLocked(key types.NamespacedName) {
	if due, ok := s.notices[key]; ok {
		s.stopTimerLocked(due.timer)
		delete(s.notices, key)
	}
}
