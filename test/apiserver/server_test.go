// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestClientsetRoundTrip(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			w := f.watchSecrets(named("a", watchList()))
			if event := expect(t, w, watch.Bookmark); metaOf(t, event).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("got %v, want the bookmark that ends the initial events", event.Object)
			}
			created := f.createSecret(newSecret("a"))
			f.createSecret(newSecret("b")) // not selected
			if got := expect(t, w, watch.Added).Object.(*corev1.Secret); got.ResourceVersion != created.ResourceVersion {
				t.Errorf("ADDED: got version %s, want %s", got.ResourceVersion, created.ResourceVersion)
			}
			f.updateSecret(created, "new")
			if got := expect(t, w, watch.Modified).Object.(*corev1.Secret); string(got.Data["key"]) != "new" {
				t.Errorf("got %q, want the new value", got.Data["key"])
			}
			f.deleteSecret("a")
			expect(t, w, watch.Deleted)
			list, err := f.client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" {
				t.Errorf("got %v, %v, want b only", list, err)
			}
		})
	}
}

func TestCloseEndsStreams(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			w := f.watchSecrets(watchList())
			expect(t, w, watch.Bookmark)
			f.Close()
			f.Close() // may be called more than once
			if event, ok := <-w.ResultChan(); ok && event.Type != watch.Error {
				t.Errorf("got %v, want the end of the watch", event)
			}
			if got := f.TotalStreams(); got != 0 {
				t.Errorf("after Close: got %d open streams, want 0", got)
			}
			if _, err := f.client.CoreV1().Secrets("default").Get(context.WithoutCancel(t.Context()), "a", metav1.GetOptions{}); err == nil {
				t.Error("after Close: got no error, want one")
			}
		})
	}
}
