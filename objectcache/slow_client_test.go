// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// slowClient is a typed client that follows no context: its n-th watch answers
// when the n-th gate opens, with the n-th data.
type slowClient struct {
	gates []chan struct{}
	data  []string

	mu   sync.Mutex
	next int
}

func (c *slowClient) resource() objectcache.Resource[*corev1.Secret] {
	return objectcache.NewResource(corev1.Resource("secrets"), func(string) *slowClient { return c })
}

func (c *slowClient) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	return nil, errors.New("not used")
}

func (c *slowClient) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	return nil, errors.New("not used")
}

func (c *slowClient) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	n := c.next
	c.next++
	c.mu.Unlock()
	<-c.gates[n]
	w := watch.NewFakeWithChanSize(2, false)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", ResourceVersion: "5"},
		Data:       map[string][]byte{"password": []byte(c.data[n])},
	}
	w.Add(secret)
	end := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "6", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	w.Action(watch.Bookmark, end)
	return w, nil
}

// runStore runs a store inside a bubble.
func runStore[T cache.Object](t *testing.T, store *objectcache.WatchStore[T]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}
