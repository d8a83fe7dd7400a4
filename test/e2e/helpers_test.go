// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// timeout bounds each wait. A test that passes does not reach it.
const timeout = 60 * time.Second

// eventually waits until check returns nil, and otherwise fails the test with its last error.
func eventually(t *testing.T, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := Poll(ctx, check); err != nil {
		t.Fatal(err)
	}
}

// Poll returns nil at the first success, and the errors of ctx and of the last check when ctx ends.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		calls, absent := 0, errors.New("absent")
		err := Poll(ctx, func(context.Context) error {
			if calls++; calls < 3 {
				return absent
			}
			return nil
		})
		if err != nil || calls != 3 {
			t.Errorf("success at the third call: got error %v after %d calls, want none after 3", err, calls)
		}
		err = Poll(ctx, func(context.Context) error { return absent })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, absent) {
			t.Errorf("no success: got error %v, want %v and %v", err, context.DeadlineExceeded, absent)
		}
	})
}

// receive waits for a value. It fails the test if the channel is closed.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value, ok := <-from:
		if !ok {
			t.Fatal("got a closed channel, want a value")
		}
		return value
	case <-time.After(timeout):
		t.Fatalf("got nothing within %v, want a value", timeout)
	}
	panic("not reached")
}

// put creates or updates a ConfigMap in the namespace default, and returns the server's object.
func put(t *testing.T, c *Cluster, name, value string) *corev1.ConfigMap {
	t.Helper()
	maps := Client(t, c.Admin()).CoreV1().ConfigMaps("default")
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

// startWatch watches one ConfigMap, and returns once its current state has arrived.
func startWatch(t *testing.T, client kubernetes.Interface, name string) watch.Interface {
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

// wantWatchEnd waits until the watch ends, and ignores events before.
func wantWatchEnd(t *testing.T, w watch.Interface) {
	t.Helper()
	timer := time.After(timeout)
	for {
		select {
		case _, open := <-w.ResultChan():
			if !open {
				return
			}
		case <-timer:
			t.Fatalf("watch: got it open after %v, want it ended", timeout)
		}
	}
}

// shortContext returns a context for a request that must not be answered: the test asserts that no answer arrives
// before the context ends.
func shortContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
