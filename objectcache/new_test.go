// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// NewWatchStore returns an error that says what to do. Nothing panics later.
func TestNewWatchStoreErrors(t *testing.T) {
	live := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://nowhere.invalid"})
	var clientset *kubernetes.Clientset
	tests := map[string]struct {
		err  error
		want string
	}{
		"zero Resource":       {newError(resource.Resource[*corev1.Secret]{}), "make one with"},
		"no client":           {newError(resource.Secrets(nil)), `"secrets": the client is nil: make one from the config that resource.ConfigFor returns`},
		"nil clientset":       {newError(resource.Secrets(clientset)), `"secrets": the client is nil: make one from the config that resource.ConfigFor returns`},
		"another group":       {newError(resource.Typed[*corev1.Secret, *corev1.SecretList](live.CoreV1().RESTClient(), appsv1.SchemeGroupVersion.WithResource("secrets"))), `"secrets.apps": its objects are those of the resource "secrets" of "v1": name that, or use the type of the resource "secrets" of "apps/v1"`},
		"another resource":    {newError(resource.Typed[*corev1.Secret, *corev1.SecretList](live.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("configmaps"))), `"configmaps": its objects are those of the resource "secrets" of "v1"`},
		"kind":                {newError(resource.Typed[*corev1.Secret, *corev1.SecretList](live.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("Secret"))), "plural and in lower case"},
		"fake clientset":      {newError(resource.Secrets(fake.NewClientset())), `"secrets": the clientset has no REST client`},
		"source, nil":         {newError(resource.FromSource[*corev1.Secret](nil, corev1.SchemeGroupVersion.WithResource("secrets"))), "the source is nil"},
		"source, no version":  {newError(resource.FromSource[*corev1.Secret](nil, schema.GroupVersionResource{Resource: "secrets"})), "it has no version"},
		"source, no resource": {newError(resource.FromSource[*corev1.Secret](nil, corev1.SchemeGroupVersion.WithResource(""))), `"" is no resource`},
		"ConfigMaps":          {newError(resource.ConfigMaps(nil)), `"configmaps": the client is nil: make one from the config that resource.ConfigFor returns`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", test.err, test.want)
			}
		})
	}
}

func newError[T cache.Object](resource resource.Resource[T]) error {
	_, err := objectcache.NewWatchStore(resource, objectcache.WatchOptions{})
	return err
}

func TestNilContext(t *testing.T) {
	var none context.Context
	store := newStore(t, resource.Secrets(clients.Nowhere()), objectcache.WatchOptions{})
	store.AddReference(namespace, "tls", "pod")
	if err := store.Run(none); !errors.Is(err, objectcache.ErrNilContext) {
		t.Errorf("Run: got %v, want ErrNilContext", err)
	}
	if _, err := store.Get(none, namespace, "tls"); !errors.Is(err, objectcache.ErrNilContext) {
		t.Errorf("Get: got %v, want ErrNilContext", err)
	}
	for range store.Changes(none) {
		t.Error("Changes: got one, want none")
	}
}

var (
	_ objectcache.Store[*corev1.Secret] = (*objectcache.WatchStore[*corev1.Secret])(nil)
	_ objectcache.Store[*corev1.Secret] = (*objectcache.TTLStore[*corev1.Secret])(nil)
	_ objectcache.Store[*corev1.Secret] = (*objectcache.DirectStore[*corev1.Secret])(nil)
)

// The type of the options selects the strategy. With an error the store is nil.
func TestNewStore(t *testing.T) {
	secrets := resource.Secrets(clients.Nowhere())
	for want, options := range map[string]objectcache.StoreOptions{
		"WatchStore[":  nil,
		".WatchStore[": objectcache.WatchOptions{},
		"TTLStore[":    objectcache.TTLOptions{},
		"DirectStore[": objectcache.DirectOptions{},
	} {
		store, err := objectcache.NewStore(secrets, options)
		if err != nil || !strings.Contains(fmt.Sprintf("%T", store), want) {
			t.Errorf("%T: got %T, %v, want a %s", options, store, err, want)
		}
		if store, err := objectcache.NewStore(resource.Secrets(nil), options); err == nil || store != nil {
			t.Errorf("%T without a client: got %T, %v, want an error", options, store, err)
		}
	}
	if _, err := objectcache.NewStore(secrets, &objectcache.TTLOptions{}); err == nil || !strings.Contains(err.Error(), "not a pointer") {
		t.Errorf("pointer: got %v, want an error that says what to pass", err)
	}
	if _, err := objectcache.NewDirectStore(resource.Secrets(nil), objectcache.DirectOptions{}); err == nil {
		t.Error("direct store without a client: got no error")
	}
}
