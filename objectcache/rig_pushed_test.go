// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
	"github.com/refwatch/refwatch/test/pushed"
)

// inPushedStore runs f with a store that has a reference to the Secret.
func inPushedStore(t *testing.T, options WatchOptions, f func(*WatchStore[*corev1.Secret], *pushed.Server)) {
	t.Helper()
	s, err := NewWatchStore(resource.Secrets(clients.Nowhere()), options)
	if err != nil {
		t.Fatal(err)
	}
	source := pushed.New(func(version string) *corev1.Secret { return testSecret(version, false) })
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.mu.Lock()
	s.ctx = ctx
	e := s.entry(testKey)
	w := s.newWatchLocked(e)
	w.reflector = reflector.New(source, w, reflector.Options{
		Resource: "secrets", Gate: s.options.Gate, Prompt: true, Counters: &s.counters, Explain: s.explain,
	})
	e.watch.Store(w)
	w.readLocked()
	s.runLocked(w)
	s.mu.Unlock()
	f(s, source)
	for s.entry(testKey) != nil {
		for _, owner := range []string{"pod", "other-0", "other-1", "other-2"} {
			s.DeleteReference(testKey.Namespace, testKey.Name, types.UID(owner))
		}
	}
	waitForBackground(s)
}
