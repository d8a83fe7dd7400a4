// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/refwatch/refwatch/reflector"
)

var testKey = types.NamespacedName{Namespace: "default", Name: "tls"}

// newTestStore is a store whose streams end with a context that has ended.
func newTestStore(t testing.TB, options WatchOptions) *WatchStore[*corev1.Secret] {
	t.Helper()
	w, err := NewWatchStore(Secrets(fake.NewClientset()), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.ctx = ctx
	return w
}

func testSecret(version string, immutable bool) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: testKey.Name, UID: "u", ResourceVersion: version},
		Immutable:  &immutable,
	}
}

// A change that is taken note of late, with a state from before the object was
// immutable, made a settled run start over.
func TestIssue8LateChangeDoesNotRestart(t *testing.T) {
	for range 50 {
		w := newTestStore(t, WatchOptions{ImmutableRecheck: -1})
		w.AddReference(testKey.Namespace, testKey.Name, "pod")
		e := w.entry(testKey)
		r := e.run.Load()
		_ = r.slot.Replace([]any{testSecret("5", false)}, "5")
		r.covers.Store(1)
		w.mu.Lock()
		var late sync.WaitGroup
		for range 4 {
			late.Go(func() { w.changed(e, r) })
		}
		for range 100 {
			runtime.Gosched() // until they wait for the lock
		}
		_ = r.slot.Update(testSecret("6", true))
		w.settleLocked(e, r)
		w.mu.Unlock()
		late.Wait()
		if e.run.Load() != r {
			t.Fatal("a settled run was replaced, though the object is immutable")
		}
		w.DeleteReference(testKey.Namespace, testKey.Name, "pod")
		w.streams.Wait()
	}
}

// MaxStaleness took the store's lock in Get.
func TestIssue8GetTakesNoLock(t *testing.T) {
	w := newTestStore(t, WatchOptions{MaxStaleness: time.Nanosecond, ImmutableRecheck: -1})
	w.AddReference(testKey.Namespace, testKey.Name, "pod")
	r := w.entry(testKey).run.Load()
	_ = r.slot.Replace([]any{testSecret("5", true)}, "5")
	r.covers.Store(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.Get(t.Context(), testKey.Namespace, testKey.Name); err != nil {
		t.Errorf("got %v, want the object", err)
	}
}

func TestCausesOf(t *testing.T) {
	refused, waiting := errors.New("refused"), errors.New("waits for its turn")
	ago := time.Now().Add(-time.Hour)
	tests := map[string]struct {
		status reflector.Status
		want   []error
		more   int // causes that are no values to compare with
	}{
		"nothing":                    {},
		"all is well again":          {status: reflector.Status{LastError: refused}},
		"failing":                    {status: reflector.Status{Failures: 1, LastError: refused}, want: []error{refused}},
		"waiting":                    {status: reflector.Status{Waiting: waiting}, want: []error{waiting}},
		"waiting after a failure":    {status: reflector.Status{Failures: 1, LastError: refused, Waiting: waiting}, want: []error{refused, waiting}},
		"waiting because of it":      {status: reflector.Status{Failures: 1, LastError: refused, Waiting: fmt.Errorf("pause: %w", refused)}, want: []error{refused}},
		"unanswered":                 {status: reflector.Status{AskedAt: ago}, more: 1},
		"just asked":                 {status: reflector.Status{AskedAt: time.Now()}, more: 1},
		"unanswered after a failure": {status: reflector.Status{Failures: 1, LastError: refused, AskedAt: ago}, want: []error{refused}, more: 1},
		"just asked after a failure": {status: reflector.Status{Failures: 1, LastError: refused, AskedAt: time.Now()}, want: []error{refused}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := causesOf(test.status)
			if len(got) != len(test.want)+test.more {
				t.Fatalf("got %v, want %v and %d more", got, test.want, test.more)
			}
			for i, want := range test.want {
				if !errors.Is(got[i], want) {
					t.Errorf("cause %d: got %v, want %v", i, got[i], want)
				}
			}
		})
	}
}
