// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// A key has one notice, the earliest. It is dropped when the key has no reference or its
// state is known.
func TestNotices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t, WatchOptions{})
		queue := workqueue.NewTyped[types.NamespacedName]()
		defer queue.ShutDown()
		s.subscribers[queue] = struct{}{}
		check := func(when string, queued, notices int) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			if queue.Len() != queued || len(s.notices) != notices {
				t.Errorf("%s: got %d keys queued and %d notices, want %d and %d", when, queue.Len(), len(s.notices), queued, notices)
			}
		}
		later := func(after time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notifyLaterLocked(testKey, after)
		}
		later(time.Hour)
		later(time.Second)
		later(time.Minute)
		time.Sleep(time.Second - time.Nanosecond)
		check("before the earliest", 0, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		check("at the earliest", 1, 0)
		key, _ := queue.Get()
		queue.Done(key)
		time.Sleep(2 * time.Hour)
		check("afterwards", 0, 0)
		later(time.Hour)
		s.snapshot(testKey)
		check("without references", 0, 0)
		ctx := s.ctx
		s.ctx = nil // as before Run
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		key, _ = queue.Get()
		queue.Done(key)
		s.snapshot(testKey)
		check("before Run", 0, 0)
		time.Sleep(time.Hour)
		s.mu.Lock()
		s.ctx = ctx
		s.startEntriesLocked()
		s.mu.Unlock()
		key, _ = queue.Get()
		queue.Done(key)
		s.snapshot(testKey)
		check("not synced", 0, 1)
		w := s.entry(testKey).watch.Load()
		_ = w.Replace([]any{testSecret("5", false)}, "5")
		s.mu.Lock()
		w.entry.live = true
		s.publishLocked(w.entry)
		s.mu.Unlock()
		s.snapshot(testKey)
		check("synced", 0, 0)
		s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
		waitForBackground(s)
	})
}
