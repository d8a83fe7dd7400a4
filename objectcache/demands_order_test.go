// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A live Get loaded the state first, and then saw that its read was done: it returned a state from before the read.
func TestLiveGetWhoseReadEndsWhileItChecks(t *testing.T) {
	s := newTestStore(t, WatchOptions{})
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	e := s.entry(testKey)
	w := e.watch.Load()
	_ = w.slot.Replace([]any{testSecret("5", false)}, "5")
	w.readFor.Store(1)
	var pending atomic.Bool
	pending.Store(true)
	s.resource.immutable = func(*corev1.Secret) bool { // called when check has loaded the state
		if pending.Swap(false) {
			_ = w.slot.Replace([]any{testSecret("6", false)}, "6")
			w.readFor.Store(e.owners.reads)
			s.changed(e, w)
		}
		return false
	}
	got, err := s.GetWithOptions(t.Context(), testKey.Namespace, testKey.Name, GetOptions{Live: true})
	if err != nil || got.ResourceVersion != "6" {
		t.Errorf("got version %s, error %v, want version 6", got.GetResourceVersion(), err)
	}
	s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
	s.background.Wait()
}
