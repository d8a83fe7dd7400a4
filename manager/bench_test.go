// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// noStore takes references and does nothing, so that only the manager counts.
type noStore struct{}

func (noStore) Run(ctx context.Context) error             { <-ctx.Done(); return nil }
func (noStore) AddReference(string, string, types.UID)    {}
func (noStore) DeleteReference(string, string, types.UID) {}
func (noStore) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, context.Canceled
}
func (noStore) Changes(context.Context) iter.Seq2[objectcache.Change[*corev1.Secret], []types.UID] {
	return func(func(objectcache.Change[*corev1.Secret], []types.UID) bool) {}
}

// newManager returns a manager of Secrets over a store.
func newManager(t interface {
	Helper()
	Fatal(args ...any)
}, store objectcache.Store[*corev1.Secret], references manager.VisitPodFunc) *manager.Manager[*corev1.Secret] {
	t.Helper()
	m, err := manager.New(store, references)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// numbered returns n names, of which as many are the same as each says.
func numbered(n, each int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("secret-", i/each)
	}
	return names
}

func BenchmarkRegisterUnregister20(b *testing.B)   { registerUnregister(b, numbered(20, 1)) }
func BenchmarkRegisterUnregister2000(b *testing.B) { registerUnregister(b, numbered(2000, 1)) }

// A container that takes a hundred variables from five Secrets.
func BenchmarkRegisterUnregister100Of5(b *testing.B) { registerUnregister(b, numbered(100, 20)) }

func registerUnregister(b *testing.B, names []string) {
	pod := podOf("1", names...)
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	b.ReportAllocs()
	for b.Loop() {
		m.RegisterPod(pod)
		m.UnregisterPod(pod)
	}
}

// What a node agent does most: it registers a pod of which nothing has changed.
func BenchmarkRegisterAgain20(b *testing.B) {
	pod := podOf("1", numbered(20, 1)...)
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	m.RegisterPod(pod)
	b.ReportAllocs()
	for b.Loop() {
		m.RegisterPod(pod)
	}
}

func BenchmarkRegisterUnregister20Parallel(b *testing.B) {
	m := newManager(b, noStore{}, manager.VisitPodSecretNames)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		pod := podOf(types.UID(fmt.Sprintf("%p", pb)), numbered(20, 1)...)
		for pb.Next() {
			m.RegisterPod(pod)
			m.UnregisterPod(pod)
		}
	})
}
