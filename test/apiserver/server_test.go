// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestClientsetRoundTrip(t *testing.T) {
	for name, options := range map[string]Options{
		"http2":  {},
		"http1":  {DisableHTTP2: true},
		"memory": {InMemory: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			w := f.watchSecrets(named("a", watchList()))
			if event := expect(t, w, watch.Bookmark); metaOf(t, event).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("got %v, want the bookmark that ends the initial events", event.Object)
			}
			created := f.createSecret(newSecret("a"))
			f.createSecret(newSecret("b")) // not selected
			if got := expect(t, w, watch.Added).Object.(*corev1.Secret); got.ResourceVersion != created.ResourceVersion {
				t.Errorf("got version %s added, want %s", got.ResourceVersion, created.ResourceVersion)
			}
			f.updateSecret(created, "new")
			if got := expect(t, w, watch.Modified).Object.(*corev1.Secret); string(got.Data["key"]) != "new" {
				t.Errorf("got %q, want the new value", got.Data["key"])
			}
			f.deleteSecret("a")
			expect(t, w, watch.Deleted)
			list, err := f.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
				t.Errorf("got %v, %v, want b alone", list, err)
			}
		})
	}
}

// A real clientset and the server live in virtual time: an hour passes in no time, and nothing is left.
func TestSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Start(Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		secrets := s.Client().CoreV1().Secrets("default")
		created, err := secrets.Create(t.Context(), newSecret("a"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := secrets.Watch(t.Context(), named("a", watchList()))
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		expect(t, w, watch.Added)
		expect(t, w, watch.Bookmark)
		begin := time.Now()
		created.Data["key"] = []byte("new")
		if _, err := secrets.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(t, w, watch.Modified)
		if passed := time.Since(begin); passed != 0 {
			t.Errorf("an update took %v of virtual time, want none", passed)
		}
		expect(t, w, watch.Bookmark)
		if passed := time.Since(begin); passed != time.Minute {
			t.Errorf("a bookmark came after %v, want one minute", passed)
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	for name, options := range map[string]Options{"http2": {}, "http1": {DisableHTTP2: true}, "memory": {InMemory: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			w := f.watchSecrets(watchList())
			expect(t, w, watch.Bookmark)
			f.Close()
			f.Close() // idempotent
			if event, ok := <-w.ResultChan(); ok && event.Type != watch.Error {
				t.Errorf("got %v, want the end of the watch", event)
			}
			if got := f.TotalStreams(); got != 0 {
				t.Errorf("got %d open streams after Close, want 0", got)
			}
			if _, err := f.client.CoreV1().Secrets("default").Get(context.WithoutCancel(t.Context()), "a", metav1.GetOptions{}); err == nil {
				t.Error("got an answer after Close, want an error")
			}
		})
	}
}
