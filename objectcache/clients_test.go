// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// slowClient is a typed client that ignores contexts. Its n-th watch returns when the
// n-th gate is closed, with the n-th data.
type slowClient struct {
	gates []chan struct{}
	data  []string

	mu   sync.Mutex
	next int
}

func (c *slowClient) resource() resource.Resource[*corev1.Secret] {
	return clients.Typed(func(string) *slowClient { return c }, corev1.SchemeGroupVersion.WithResource("secrets"))
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

// withoutRESTClient is a typed client that hides its REST client.
type withoutRESTClient struct{ typedcorev1.SecretInterface }

// answer sends a complete read on a fake watch: an immutable Secret.
func answer(w *watch.FakeWatcher, uid types.UID, version string) {
	yes := true
	w.Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", UID: uid, ResourceVersion: version},
		Immutable:  &yes,
	})
	w.Action(watch.Bookmark, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

// supported is a fake clientset that declares support for WatchList.
type supported struct{ *fake.Clientset }

func (supported) IsWatchListSemanticsUnSupported() bool { return false }
