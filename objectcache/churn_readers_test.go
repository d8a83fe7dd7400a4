// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func churnKey(prefix string, i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("%s-%d", prefix, i)}
}

// holdState gives an entry a state that a Get returns without a lock.
func holdState(s *WatchStore[*corev1.Secret], key types.NamespacedName) {
	e := s.entry(key)
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "u", ResourceVersion: "5"}}
	_ = e.watch.Load().Replace([]any{object}, "5")
	s.mu.Lock()
	defer s.mu.Unlock()
	e.live = true
	s.publishLocked(e)
}

// checkStaying checks one object whose reference stays.
func checkStaying(t *testing.T, s *WatchStore[*corev1.Secret], key types.NamespacedName) {
	got, err := s.Get(t.Context(), key.Namespace, key.Name)
	if err != nil || got.Name != key.Name {
		t.Errorf("Get %s: got %v, %v", key, got, err)
	}
	if !s.HasSynced(key.Namespace, key.Name) {
		t.Errorf("HasSynced %s: got false", key)
	}
	if status, ok := s.Status(key.Namespace, key.Name); !ok || !status.Synced || status.Key != key {
		t.Errorf("Status %s: got %+v, %v", key, status, ok)
	}
}

// checkAllStaying checks that an iteration has each of the objects that stay, once.
func checkAllStaying(t *testing.T, s *WatchStore[*corev1.Secret], staying int) {
	seen := map[types.NamespacedName]int{}
	for status := range s.Statuses() {
		seen[status.Key]++
	}
	for i := range staying {
		if got := seen[churnKey("staying", i)]; got != 1 {
			t.Errorf("Statuses has %s %d times", churnKey("staying", i), got)
		}
	}
	for key, n := range seen {
		if n > 1 {
			t.Errorf("Statuses has %s %d times", key, n)
		}
	}
}

// Objects whose references stay are found by all readers at any time, while thousands of others come and go, and the
// table grows and shrinks.
func TestReadersBesideChurn(t *testing.T) {
	const staying = 30
	s := newTestStore(t, WatchOptions{})
	for i := range staying {
		key := churnKey("staying", i)
		s.AddReference(key.Namespace, key.Name, "pod")
		holdState(s, key)
	}
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for r := range uint64(2) {
		random := rand.New(rand.NewPCG(r, 5))
		readers.Go(func() {
			for !stop.Load() {
				checkStaying(t, s, churnKey("staying", random.IntN(staying)))
				if _, err := s.TryGet("default", churnKey("going", random.IntN(500)).Name); err == nil || !errors.Is(err, ErrNotRegistered) && !errors.Is(err, ErrNotSynced) {
					t.Errorf("TryGet of another object: got %v", err)
				}
			}
		})
	}
	readers.Go(func() {
		for !stop.Load() {
			checkAllStaying(t, s, staying)
			s.Stats()
			time.Sleep(time.Millisecond)
		}
	})
	for w := range 2 {
		writers.Go(func() {
			for round := range 6 {
				n := []int{500, 40, 300}[round%3]
				for i := range n {
					s.AddReference("default", churnKey("going", 2*i+w).Name, "pod")
				}
				for i := range n {
					s.DeleteReference("default", churnKey("going", 2*i+w).Name, "pod")
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if got := len(*s.entries.slots.Load()); got > 8*staying {
		t.Errorf("in the end: got %d slots for %d objects", got, staying)
	}
	for i := range staying {
		s.DeleteReference("default", churnKey("staying", i).Name, "pod")
	}
	waitForBackground(s)
}

// Statuses yields no object whose last reference goes while the loop runs, also if the table is replaced meanwhile.
func TestStatusesBesideRemoval(t *testing.T) {
	const objects = 500
	s := newTestStore(t, WatchOptions{})
	for i := range objects {
		s.AddReference("default", churnKey("going", i).Name, "pod")
	}
	yielded := 0
	for range s.Statuses() {
		if yielded++; yielded > 1 {
			continue
		}
		for i := range objects {
			s.DeleteReference("default", churnKey("going", i).Name, "pod")
		}
	}
	if yielded != 1 {
		t.Errorf("got %d statuses, want that of the first object only", yielded)
	}
	waitForBackground(s)
}
