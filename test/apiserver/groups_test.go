// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// forEachContentType runs a test with clientsets in JSON and in protobuf, each with a server of its own.
func forEachContentType(t *testing.T, run func(*testing.T, *fixture, kubernetes.Interface)) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			f := newFixture(t, Options{})
			config := f.Config()
			config.ContentType, config.QPS = contentType, -1
			run(t, f, newClientFor(t, config))
		})
	}
}

// TestIngress checks the life of an Ingress as its named WatchList shows it: a status cannot be set with the object, an
// update of the status keeps the spec, and the generation counts changes of the spec.
func TestIngress(t *testing.T) {
	forEachContentType(t, func(t *testing.T, f *fixture, client kubernetes.Interface) {
		ingresses := client.NetworkingV1().Ingresses("default")
		w, err := ingresses.Watch(t.Context(), named("web", watchList()))
		check(t, err)
		defer w.Stop()
		expect(t, w, watch.Bookmark)
		if got := f.OpenStreams("ingresses.networking.k8s.io", key("web")); got != 1 {
			t.Errorf("got %d streams, want 1", got)
		}
		status := networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{
			Ingress: []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.1"}},
		}}
		created, err := ingresses.Create(t.Context(), &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.test"}, SecretName: "tls"}}},
			Status:     status,
		}, metav1.CreateOptions{})
		if err != nil || created.Generation != 1 || len(created.Status.LoadBalancer.Ingress) != 0 {
			t.Fatalf("create: got %v, %v, want generation 1 and no status", created, err)
		}
		if added := expect(t, w, watch.Added).Object.(*networkingv1.Ingress); added.Spec.TLS[0].SecretName != "tls" {
			t.Errorf("added: got %v, want the spec", added)
		}
		changed := created.DeepCopy()
		changed.Status, changed.Spec = status, networkingv1.IngressSpec{}
		updated, err := ingresses.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
		if err != nil || len(updated.Status.LoadBalancer.Ingress) != 1 || len(updated.Spec.TLS) != 1 || updated.Generation != 1 {
			t.Errorf("status: got %v, %v, want the new status and the old spec", updated, err)
		}
		expect(t, w, watch.Modified)
		patch := []byte(`{"spec":{"ingressClassName":"nginx"},"status":null}`)
		patched, err := ingresses.Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil || patched.Generation != 2 || len(patched.Status.LoadBalancer.Ingress) != 1 {
			t.Errorf("patch: got %v, %v, want generation 2 and the old status", patched, err)
		}
		if modified := expect(t, w, watch.Modified).Object.(*networkingv1.Ingress); *modified.Spec.IngressClassName != "nginx" {
			t.Errorf("modified: got %v, want the class", modified)
		}
		check(t, ingresses.Delete(t.Context(), "web", metav1.DeleteOptions{}))
		expect(t, w, watch.Deleted)
	})
}

// TestLease checks that a Lease can be taken over only by a client that names the version that it replaces.
func TestLease(t *testing.T) {
	forEachContentType(t, func(t *testing.T, f *fixture, client kubernetes.Interface) {
		leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
		created, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("a")},
		}, metav1.CreateOptions{})
		check(t, err)
		next := created.DeepCopy()
		next.Spec.HolderIdentity = new("b")
		next.ResourceVersion = ""
		if _, err := leases.Update(t.Context(), next, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("without a version: got %v, want Invalid", err)
		}
		next.ResourceVersion = created.ResourceVersion
		if _, err := leases.Update(t.Context(), next, metav1.UpdateOptions{}); err != nil {
			t.Errorf("with the version: got %v, want no error", err)
		}
		if _, err := leases.Update(t.Context(), next, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("with an old version: got %v, want Conflict", err)
		}
		list, err := leases.List(t.Context(), named("node-1", metav1.ListOptions{}))
		if err != nil || len(list.Items) != 1 || *list.Items[0].Spec.HolderIdentity != "b" {
			t.Errorf("got %v, %v, want the lease of b", list, err)
		}
	})
}
