// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// managedBy returns the managedFields of a manager, as kube-apiserver writes them, for the value of a Secret.
func managedBy(manager string, operation metav1.ManagedFieldsOperationType) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "v1", Time: &metav1.Time{Time: time.Unix(1_700_000_000, 0)}, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{".":{},"f:value":{}},"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:type":{}}`),
	}
}

// writeManaged writes a Secret with managedFields, and returns it as the server has it.
func (r *rig) writeManaged(name, value string, managers ...metav1.ManagedFieldsEntry) *corev1.Secret {
	r.t.Helper()
	secret := secretNamed(name, value)
	secret.ManagedFields = managers
	written, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return written
}

// Objects by reference have the managedFields that the server has, as those of the stock cache: in each representation,
// after the first read, an event and another read, for Gets and for handlers.
func TestManagedFields(t *testing.T) {
	secret := metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
	for name, made := range map[string]func() client.Object{
		"typed": func() client.Object { return &corev1.Secret{} },
		"unstructured": func() client.Object {
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
		},
		"metadata": func() client.Object { return &metav1.PartialObjectMetadata{TypeMeta: secret} },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				r.create("one", "1")
				informer, err := r.cache.GetInformer(t.Context(), made())
				if err != nil {
					t.Fatal(err)
				}
				var handled []metav1.ManagedFieldsEntry
				if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc:    func(object any) { handled = object.(client.Object).GetManagedFields() },
					UpdateFunc: func(_, object any) { handled = object.(client.Object).GetManagedFields() },
				}); err != nil {
					t.Fatal(err)
				}
				check := func(when string, want []metav1.ManagedFieldsEntry) {
					t.Helper()
					got := made()
					if err := r.cache.Get(t.Context(), keyOfOne, got); err != nil || len(want) == 0 || !equality.Semantic.DeepEqual(got.GetManagedFields(), want) {
						t.Errorf("%s: Get: got %v and %v, want %v", when, got.GetManagedFields(), err, want)
					}
					synctest.Wait()
					if !equality.Semantic.DeepEqual(handled, want) {
						t.Errorf("%s: handlers: got %v, want %v", when, handled, want)
					}
				}
				check("the first read", r.writeManaged("one", "1", managedBy("a", metav1.ManagedFieldsOperationUpdate)).ManagedFields)
				for i := range 3 { // a stream may learn from the first event what it may drop
					manager := managedBy(fmt.Sprint("event-", i), metav1.ManagedFieldsOperationApply)
					check("an event", r.writeManaged("one", fmt.Sprint(i), manager).ManagedFields)
				}
				large := r.writeManaged("one", strings.Repeat("x", 100_000), managedBy("large", metav1.ManagedFieldsOperationApply))
				check("a large object", large.ManagedFields)
				r.server.CloseStreams(nil)
				time.Sleep(time.Minute)
				check("another read", large.ManagedFields)
			})
		})
	}
}
