// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for what must happen. It takes that long only when the test fails.
const patience = 60 * time.Second

// eventually waits until f returns nil, and otherwise fails with what it returned last.
func eventually(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = f(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("still not so after %v: %v", patience, last)
	}
}

// receive waits for a value. A channel that is closed fails the test.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatal("got a closed channel, want a value")
		}
		return value
	case <-time.After(patience):
		t.Fatalf("got nothing in %v, want a value", patience)
	}
	panic("not reached")
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// put creates or updates a ConfigMap in the namespace default, and returns what the server made of it.
func put(t *testing.T, c *Cluster, name, value string) *corev1.ConfigMap {
	t.Helper()
	maps := clientFor(t, c.Admin()).CoreV1().ConfigMaps("default")
	want := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
	got, err := maps.Update(t.Context(), want, metav1.UpdateOptions{})
	if err != nil {
		got, err = maps.Create(t.Context(), want, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// follow watches one ConfigMap from its present state on, and returns once that has arrived.
func follow(t *testing.T, client kubernetes.Interface, name string) watch.Interface {
	t.Helper()
	w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + name,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	wantEvent(t, w, watch.Added, name)
	return w
}

func wantEvent(t *testing.T, w watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	event := receive(t, w.ResultChan())
	got, ok := event.Object.(*corev1.ConfigMap)
	if event.Type != kind || !ok || got.Name != name {
		t.Fatalf("got event %s of %v, want %s of ConfigMap %s", event.Type, event.Object, kind, name)
	}
}

// ended waits until the watch is over, whatever comes before that.
func ended(t *testing.T, w watch.Interface) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-timeout:
			t.Fatalf("the watch goes on after %v, want it ended", patience)
		}
	}
}

// within returns a context for a request that must not be answered: it ends soon, whatever the machine does
// meanwhile, and what the test asserts is that nothing came before.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
