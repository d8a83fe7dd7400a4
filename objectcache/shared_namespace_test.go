// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache/resource"
)

// A namespace is remembered only while an object in it needs a stream: with Allowed alone
// there may be any number of them.
func TestSharedNamespacesAreForgotten(t *testing.T) {
	options := WatchOptions{Shared: SharedOptions{Allowed: func(context.Context, string) (bool, error) { return true, nil }}}
	s, err := NewWatchStore(resource.Secrets(kubernetes.NewForConfigOrDie(&rest.Config{})), options)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	check := func(when string, want int) {
		t.Helper()
		if got := len(s.shared); got != want {
			t.Errorf("namespaces %s: got %d, want %d", when, got, want)
		}
	}
	e := &entry[*corev1.Secret]{key: testKey}
	s.leaveSharedLocked(e)
	check("after an object that needed no stream", 0)
	s.countStreamLocked(e, true)
	check("with an object that needs a stream", 1)
	s.leaveSharedLocked(e)
	check("afterwards", 0)
}
