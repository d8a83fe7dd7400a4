// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/csaupgrade"
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

// What reads managedFields works with objects by reference, and also where the stock cache holds some of the kind.
func TestExtractAndUpgrade(t *testing.T) {
	for name, options := range map[string]controllerruntime.CacheOptions{
		"by reference": {},
		"Selected":     {Selected: []client.Object{&corev1.Secret{}}},
	} {
		t.Run(name, func(t *testing.T) {
			stock := cache.Options{}
			if len(options.Selected) > 0 {
				stock.ByObject = ofSecrets(cache.ByObject{Label: web})
			}
			inBubble(t, options, stock, func(t *testing.T, r *rig) {
				for _, labels := range []map[string]string{{"app": "web"}, nil} { // in the set, and not
					name := fmt.Sprint("secret-", len(labels))
					r.create(name, "1")
					r.writeManaged(name, "1", managedBy("operator", metav1.ManagedFieldsOperationApply), managedBy("kubectl", metav1.ManagedFieldsOperationUpdate))
					if labels == nil {
						r.label(name, nil)
					}
					secret, err := r.get(name)
					if err != nil {
						t.Fatal(err)
					}
					extracted, err := applycorev1.ExtractSecret(secret, "operator")
					if err != nil || string(extracted.Data["value"]) != "1" {
						t.Errorf("ExtractSecret of %s: got data %q and %v, want the value that the operator has applied", name, extracted.Data, err)
					}
					if err := csaupgrade.UpgradeManagedFields(secret, sets.New("kubectl"), "operator"); err != nil || len(secret.ManagedFields) != 1 {
						t.Errorf("UpgradeManagedFields of %s: got %d managers and %v, want one", name, len(secret.ManagedFields), err)
					}
				}
			})
		})
	}
}

// controller-runtime's transform removes managedFields, for a kind or for all.
func TestTransformStripManagedFields(t *testing.T) {
	strip := cache.TransformStripManagedFields()
	for name, stock := range map[string]cache.Options{
		"of all kinds":   {DefaultTransform: strip},
		"of the kind":    {ByObject: ofSecrets(cache.ByObject{Transform: strip})},
		"of a namespace": {DefaultNamespaces: map[string]cache.Config{namespace: {Transform: strip}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, stock, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.writeManaged("one", "1", managedBy("a", metav1.ManagedFieldsOperationUpdate))
				if secret, err := r.get("one"); err != nil || len(secret.ManagedFields) > 0 {
					t.Errorf("got %v and %v, want no managedFields", secret.ManagedFields, err)
				}
			})
		})
	}
}

// BenchmarkManagedFields measures the heap that managedFields of a Secret take: one entry, of 0.1 kB as in the tests,
// and two of 0.7 kB, as cert-manager and an operator make them together.
func BenchmarkManagedFields(b *testing.B) {
	large := managedBy("cert-manager-certificates-issuing", metav1.ManagedFieldsOperationApply)
	var fields strings.Builder
	for i := range 12 {
		fmt.Fprintf(&fields, `,"f:cert-manager.io/an-annotation-of-%02d":{}`, i)
	}
	large.FieldsV1 = metav1.NewFieldsV1(`{"f:data":{".":{},"f:tls.crt":{},"f:tls.key":{}},"f:metadata":{"f:annotations":{".":{}` + fields.String() + `}},"f:type":{}}`)
	for name, entries := range map[string][]metav1.ManagedFieldsEntry{
		"none": nil, "one small": {managedBy("operator", metav1.ManagedFieldsOperationUpdate)}, "two large": {large, large},
	} {
		b.Run(name, func(b *testing.B) {
			secret := secretNamed("one", "1")
			secret.ManagedFields = entries
			encoded, err := secret.Marshal()
			if err != nil {
				b.Fatal(err)
			}
			const objects = 10_000
			for b.Loop() {
				held := make([]*corev1.Secret, objects)
				before := heap()
				for i := range held {
					held[i] = &corev1.Secret{}
					if err := held[i].Unmarshal(encoded); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/objects, "heap-B/object")
				runtime.KeepAlive(held)
			}
		})
	}
}

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
