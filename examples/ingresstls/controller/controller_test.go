// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The host that the client names selects the certificate: exactly, or by a wildcard for one label.
func TestHosts(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		a, wild := r.secret("a", "a.test", "A2.test"), r.secret("wild", "*.wild.test")
		r.ingress("a", "a", "a.test", "A2.test")
		r.ingress("wild", "wild", "*.wild.test")
		r.ingress("exact", "missing", "exact.wild.test")
		defer r.start()()

		r.presents("a.test", a)
		r.presents("A.Test", a)
		r.presents("a2.test", a)
		r.presents("one.wild.test", wild)
		r.refuses("one.two.wild.test")
		r.refuses("wild.test")
		r.refuses("unknown.test")
		r.refuses("exact.wild.test") // another Ingress's wildcard is no replacement
		if got, want := r.controller.Counts(), (Counts{Presented: 4, Refused: 4}); got != want {
			t.Errorf("counts: got %+v, want %+v", got, want)
		}
	})
}

// An entry of spec.tls without hosts stands for the hosts of the rules.
func TestHostsOfRules(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		serial := r.secret("a", "rule.test")
		i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "a"}}
		i.Spec.Rules = []networkingv1.IngressRule{{Host: "rule.test"}, {Host: ""}, {Host: "other.test"}}
		r.must(r.server.Client().NetworkingV1().Ingresses(ns).Create(t.Context(), i, metav1.CreateOptions{}))
		synctest.Wait()
		r.presents("rule.test", serial)
		r.refuses("other.test") // the certificate is not valid for it
		if len(r.controller.Status()) != 2 {
			t.Errorf("status: got %v, want two hosts", r.controller.Status())
		}
	})
}

// Only Ingresses of the class are served, and only Secrets of these are read.
func TestIngressClass(t *testing.T) {
	inBubble(t, Options{IngressClass: "tls"}, func(t *testing.T, r *rig) {
		defer r.start()()
		r.secret("a", "a.test")
		r.ingress("a", "a", "a.test")
		r.refuses("a.test")
		class, ingresses := "tls", r.server.Client().NetworkingV1().Ingresses(ns)
		i, err := ingresses.Get(t.Context(), "a", metav1.GetOptions{})
		r.must(i, err)
		i.Spec.IngressClassName = &class
		r.must(ingresses.Update(t.Context(), i, metav1.UpdateOptions{}))
		synctest.Wait()
		if _, err := r.handshake("a.test"); err != nil {
			t.Errorf("handshake: got error %v, want none", err)
		}
	})
}

// The default certificate is presented for hosts without one, and to clients that name no host. It is rotated, too.
func TestDefaultCertificate(t *testing.T) {
	inBubble(t, Options{DefaultCertificate: types.NamespacedName{Namespace: ns, Name: "default"}}, func(t *testing.T, r *rig) {
		defer r.start()()
		r.refuses("a.test")
		serial := r.secret("default", "*.test")
		r.ingress("missing", "missing", "missing.test")
		r.presents("a.test", serial)
		r.presents("missing.test", serial)
		serial = r.rotate("default", "*.test")
		r.presents("a.test", serial)
		r.setData("default", garbage(t))
		r.presents("a.test", serial)
		if got := r.controller.Status()[0]; got.Host != "" || got.Err == nil || got.Certificate.Leaf.SerialNumber.Int64() != serial {
			t.Errorf("status of the default certificate: got %+v, want the last good one and an error", got)
		}
		if got, want := r.controller.Counts(), (Counts{Default: 4, Refused: 1}); got != want {
			t.Errorf("counts: got %+v, want %+v", got, want)
		}
		if r.controller.Certificate("") == nil {
			t.Error("a client without a host got no certificate, want the default")
		}
	})
}

// A rotation is presented to the next handshake. A version is parsed once, whatever else changes.
func TestRotation(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		first := r.secret("a", "a.test", "b.test")
		r.ingress("a", "a", "a.test", "b.test")
		r.presents("a.test", first)
		parsed := r.controller.Certificate("a.test")
		r.ingress("other", "other", "other.test")
		if parsed != r.controller.Certificate("a.test") || parsed != r.controller.Certificate("b.test") {
			t.Error("the certificate was parsed again")
		}
		second := r.rotate("a", "a.test", "b.test")
		if first == second {
			t.Fatal("serial numbers are equal")
		}
		r.presents("a.test", second)
		r.presents("b.test", second)
	})
}

// Without its Ingress, a certificate is dropped and its Secret is not watched. A deleted Secret has no certificate.
func TestDeletion(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		serial := r.secret("a", "a.test", "b.test")
		r.ingress("a", "a", "a.test")
		r.ingress("b", "a", "b.test")
		r.presents("b.test", serial)

		r.deleteIngress("b")
		r.refuses("b.test")
		r.presents("a.test", serial)
		if _, ok := r.controller.HostStatus("b.test"); ok {
			t.Error("status of b.test: got one, want none")
		}
		r.deleteSecret("a")
		r.refuses("a.test")
		if err := r.status("a.test").Err; !apierrors.IsNotFound(err) {
			t.Errorf("status of a.test: got error %v, want NotFound", err)
		}
		r.presents("a.test", r.secret("a", "a.test"))
		r.deleteIngress("a")
		if n := r.server.OpenStreams("secrets", types.NamespacedName{Namespace: ns, Name: "a"}); n != 0 {
			t.Errorf("watches of the Secret: got %d, want 0", n)
		}
	})
}

// The oldest Ingress has a host, also while its Secret is missing. The next one gets the host when it is deleted.
func TestOldestIngressHasTheHost(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		r.ingress("z", "z", "a.test")
		r.ingress("a", "a", "a.test")
		r.secret("a", "a.test")
		r.refuses("a.test")
		old := r.secret("z", "a.test")
		r.presents("a.test", old)
		if got, want := r.status("a.test").Ignored, []types.NamespacedName{{Namespace: ns, Name: "a"}}; !slices.Equal(got, want) {
			t.Errorf("ignored Ingresses: got %v, want %v", got, want)
		}
		r.setData("a", garbage(t))
		r.deleteIngress("z")
		r.refuses("a.test") // the last good certificate was that of another Ingress
		r.presents("a.test", r.rotate("a", "a.test"))
	})
}

// Two equally old Ingresses have an order, too.
func TestEquallyOldIngresses(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		created := metav1.Now()
		var objects []any
		for _, key := range []types.NamespacedName{{Namespace: "b", Name: "a"}, {Namespace: "a", Name: "b"}, {Namespace: "a", Name: "a"}} {
			i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, CreationTimestamp: created}}
			i.UID = types.UID(key.String())
			i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "tls", Hosts: []string{"a.test"}}}
			objects = append(objects, i)
		}
		r.controller.setIngresses(objects)
		var got []string
		for _, i := range r.controller.byAge() {
			got = append(got, i.Namespace+"/"+i.Name)
		}
		if want := "a/a a/b b/a"; strings.Join(got, " ") != want {
			t.Errorf("order: got %v, want %s", got, want)
		}
	})
}

// WaitForSync returns when each host has its certificate, and does not wait for Secrets that are absent.
func TestWaitForSync(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		serial := r.secret("a", "a.test")
		r.ingress("a", "a", "a.test")
		r.ingress("b", "missing", "b.test")
		synced := make(chan error, 1)
		go func() {
			err := r.controller.WaitForSync(t.Context())
			r.presents("a.test", serial)
			synced <- err
		}()
		time.Sleep(time.Minute)
		if len(synced) > 0 {
			t.Error("WaitForSync returned before Run")
		}
		defer r.start()()
		if err := <-synced; err != nil {
			t.Errorf("WaitForSync: got error %v, want none", err)
		}
	})
}

// A handshake takes no lock: here all are held. It does not allocate either.
func TestHandshakesTakeNoLock(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		defer r.start()()
		serial := r.secret("a", "a.test")
		r.ingress("a", "a", "a.test")
		r.controller.building.Lock()
		r.controller.mu.Lock()
		r.presents("a.test", serial)
		r.controller.mu.Unlock()
		r.controller.building.Unlock()
		if n := testing.AllocsPerRun(100, func() { r.controller.Certificate("a.test") }); n != 0 {
			t.Errorf("allocations: got %v, want 0", n)
		}
	})
}

func TestNewNeedsAClient(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a client: got no error")
	}
}
