// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// testingT is implemented by testing.TB and rapid.T.
type testingT interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// newManager returns a manager of Secrets over a store.
func newManager(t testingT, store objectcache.Store[*corev1.Secret], visitPod manager.VisitPodFunc) *manager.Manager[*corev1.Secret] {
	t.Helper()
	m, err := manager.New(store, visitPod)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// run runs a manager until the returned function is called, which waits for its end.
func run[T cache.Object](ctx context.Context, t testingT, m *manager.Manager[T]) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

// podOf returns a pod with imagePullSecrets.
func podOf(uid types.UID, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

// key returns a key in the namespace default.
func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// numbered returns n names, in groups of equal ones.
func numbered(n, group int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("secret-", i/group)
	}
	return names
}

// noStore is a store without objects. The methods that it lacks panic.
type noStore struct {
	objectcache.Store[*corev1.Secret]
}

func (noStore) Run(ctx context.Context) error             { <-ctx.Done(); return nil }
func (noStore) AddReference(string, string, types.UID)    {}
func (noStore) DeleteReference(string, string, types.UID) {}
func (noStore) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, context.Canceled
}
func (noStore) Changes(context.Context) iter.Seq2[objectcache.Change[*corev1.Secret], []types.UID] {
	return func(func(objectcache.Change[*corev1.Secret], []types.UID) bool) {}
}

// callStore records the calls for references.
type callStore struct {
	noStore

	calls []string
}

func (s *callStore) AddReference(_, name string, _ types.UID) { s.calls = append(s.calls, "add "+name) }
func (s *callStore) DeleteReference(_, name string, _ types.UID) {
	s.calls = append(s.calls, "delete "+name)
}

// countingStore is a store that counts references. It reports a count that is
// neither 0 nor 1.
type countingStore struct {
	noStore

	t testingT

	mu     sync.Mutex
	counts map[string]int // "ns/name owner"
	calls  []string       // "+ns/name owner" and "-ns/name owner"
}

func newCountingStore(t testingT) *countingStore {
	return &countingStore{t: t, counts: map[string]int{}}
}

func (s *countingStore) AddReference(namespace, name string, uid types.UID) {
	s.count("+", namespace+"/"+name+" "+string(uid), 1)
}

func (s *countingStore) DeleteReference(namespace, name string, uid types.UID) {
	s.count("-", namespace+"/"+name+" "+string(uid), -1)
}

func (s *countingStore) count(sign, reference string, delta int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, sign+reference)
	switch s.counts[reference] += delta; {
	case s.counts[reference] == 0:
		delete(s.counts, reference)
	case s.counts[reference] != 1:
		s.t.Errorf("count of %s: got %d, want 0 or 1", reference, s.counts[reference])
	}
}

// references returns all that are counted, sorted.
func (s *countingStore) references() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for reference := range s.counts {
		all = append(all, reference)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// referencesTest is a case of checkReferences: the references that the steps lead to.
type referencesTest struct {
	steps []func(*manager.Manager[*corev1.Secret])
	want  string // as countingStore.references returns them
}

// checkReferences runs the steps of each case on a manager of its own.
func checkReferences(t *testing.T, tests map[string]referencesTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := newCountingStore(t)
			m := newManager(t, store, manager.VisitPodSecretNames)
			for _, step := range test.steps {
				step(m)
			}
			if got := store.references(); got != test.want {
				t.Errorf("references: got %q, want %q", got, test.want)
			}
		})
	}
}
