// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Each store keeps the managedFields of a resource WithManagedFields, also of one with a selector or a function of
// WithTransform, which is then called with them. All others drop them.
func TestManagedFields(t *testing.T) {
	type secrets = resource.Resource[*corev1.Secret]
	selected := func(r secrets) secrets {
		return r.WithSelector(func(string) resource.Selector { return resource.Selector{Label: labels.Everything()} })
	}
	transformed := func(r secrets) secrets {
		return r.WithTransform(func(secret *corev1.Secret) *corev1.Secret { return secret })
	}
	watch := func(r secrets) (objectcache.Store[*corev1.Secret], error) {
		return objectcache.NewWatchStore(r, objectcache.WatchOptions{})
	}
	ttl := func(r secrets) (objectcache.Store[*corev1.Secret], error) {
		return objectcache.NewTTLStore(r, objectcache.TTLOptions{})
	}
	direct := func(r secrets) (objectcache.Store[*corev1.Secret], error) {
		return objectcache.NewDirectStore(r, objectcache.DirectOptions{})
	}
	for name, test := range map[string]struct {
		of   func(secrets) secrets
		in   func(secrets) (objectcache.Store[*corev1.Secret], error)
		want int
	}{
		"dropped by watches":          {func(r secrets) secrets { return r }, watch, 0},
		"dropped by GETs":             {func(r secrets) secrets { return r }, ttl, 0},
		"dropped before a transform":  {transformed, watch, 0},
		"watched":                     {secrets.WithManagedFields, watch, 1},
		"read by GETs":                {secrets.WithManagedFields, ttl, 1},
		"read by each Get":            {secrets.WithManagedFields, direct, 1},
		"before a selector":           {func(r secrets) secrets { return selected(r.WithManagedFields()) }, watch, 1},
		"after a selector":            {func(r secrets) secrets { return selected(r).WithManagedFields() }, watch, 1},
		"before a transform":          {func(r secrets) secrets { return transformed(r.WithManagedFields()) }, watch, 1},
		"after a transform, by a GET": {func(r secrets) secrets { return transformed(r).WithManagedFields() }, direct, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
				entry := metav1.ManagedFieldsEntry{
					Manager: "test", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1",
					FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
				}
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", ManagedFields: []metav1.ManagedFieldsEntry{entry}}}
				if _, err := server.Client().CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				store, err := test.in(test.of(resource.Secrets(clientOf(t, server))))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- store.Run(ctx) }()
				store.AddReference(namespace, "tls", "pod")
				got, err := store.Get(t.Context(), namespace, "tls")
				if err != nil || len(got.ManagedFields) != test.want || test.want > 0 && got.ManagedFields[0].FieldsV1.GetRawString() != `{"f:data":{}}` {
					t.Errorf("got %v and %v, want %d managedFields of the server", got.ManagedFields, err, test.want)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
