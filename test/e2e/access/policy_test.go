// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/examples/referencegrants"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// gatewayNamed returns an owner in another namespace than the Secrets.
func gatewayNamed(i int) manager.Owner {
	return manager.Owner{Kind: "Gateway.gateway.networking.k8s.io", Namespace: fmt.Sprint("team-", i), Name: "public"}
}

// TestReferenceGrants: of a thousand Gateways in namespaces of their own, those get the Secret that a ReferenceGrant
// names, for as long as it does. The server gets no request for a Secret whose references are all denied.
func TestReferenceGrants(t *testing.T) {
	base := newRig(t, e2e.Options{})
	admin, err := dynamic.NewForConfig(base.cluster.Admin())
	base.must(admin, err)
	r := &customRig{base, admin}
	r.install(referencegrants.Resource, "ReferenceGrant", "Namespaced")
	r.createSecret("tls", "certificate")
	grants := admin.Resource(referencegrants.Resource).Namespace(namespace)
	r.eventually("the kind is served", func(ctx context.Context) error {
		_, err := grants.List(ctx, metav1.ListOptions{})
		return err
	})

	const agent = "gateway-controller"
	config := resource.ConfigFor(rest.AddUserAgent(r.cluster.Admin(), agent))
	client, err := dynamic.NewForConfig(config)
	r.must(client, err)
	gate := objectcache.NewGate(objectcache.GateOptions{})
	secrets, err := manager.NewSecrets(e2e.Client(t, config), objectcache.WatchOptions{Gate: gate})
	r.must(secrets, err)
	var known referencegrants.Grants
	secrets.SetReferencePolicy(known.Permits)
	watch := known.Watch(client, gate, func() { secrets.SetReferencePolicy(known.Permits) })
	stopWatch := e2e.Run(r, func(ctx context.Context) error { watch.Run(ctx); return nil })
	defer stopWatch()
	stop := e2e.Run(r, secrets.Run)
	defer stop()

	const gateways = 1000
	for i := range gateways {
		secrets.SetReferences(gatewayNamed(i), types.NamespacedName{Namespace: namespace, Name: "tls"},
			types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("missing-", i)})
	}
	r.wantDenied(secrets, 0, 1, 999)

	grant := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": referencegrants.Resource.GroupVersion().String(), "kind": "ReferenceGrant", "metadata": map[string]any{"name": "team-1"},
		"spec": map[string]any{
			"from": []any{map[string]any{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "team-1"}},
			"to":   []any{map[string]any{"group": "", "kind": "Secret", "name": "tls"}},
		},
	}}
	r.must(grants.Create(t.Context(), grant, metav1.CreateOptions{}))
	r.eventually("the grant is applied", func(ctx context.Context) error {
		secret, err := secrets.GetFor(ctx, gatewayNamed(1), namespace, "tls")
		if err == nil && string(secret.Data["value"]) != "certificate" {
			return errors.New("got another Secret")
		}
		return err
	})
	r.wantDenied(secrets, 0, 999)
	r.wantSecretRequests(agent, 1)
	if stats := secrets.Stats(); stats.Objects != 1 || stats.References != 1 {
		t.Errorf("with one grant: got %d objects and %d references, want 1 and 1", stats.Objects, stats.References)
	}

	r.must(nil, grants.Delete(t.Context(), "team-1", metav1.DeleteOptions{}))
	r.eventually("the deletion is applied", func(context.Context) error {
		if stats := secrets.Stats(); stats.Objects > 0 {
			return fmt.Errorf("got %d objects, want none", stats.Objects)
		}
		return nil
	})
	r.wantDenied(secrets, 0, 1, 999)
}

// wantDenied checks that Gateways get a denial, which is the same for a Secret that exists and for one that does not.
func (r *customRig) wantDenied(secrets *manager.Manager[*corev1.Secret], gateways ...int) {
	r.Helper()
	for _, i := range gateways {
		var texts []string
		for _, name := range []string{"tls", fmt.Sprint("missing-", i)} {
			_, err := secrets.GetFor(r.Context(), gatewayNamed(i), namespace, name)
			if !errors.Is(err, manager.ErrReferenceDenied) {
				r.Errorf("Gateway %d, Secret %s: got error %v, want ErrReferenceDenied", i, name, err)
				return
			}
			texts = append(texts, strings.ReplaceAll(err.Error(), name, "NAME"))
		}
		if texts[0] != texts[1] {
			r.Errorf("Gateway %d: got %q and %q, want the same", i, texts[0], texts[1])
		}
	}
}

// wantSecretRequests checks for how many Secrets a program has sent requests.
func (r *customRig) wantSecretRequests(agent string, want int) {
	r.Helper()
	events, err := r.cluster.AuditEvents()
	r.must(events, err)
	names := map[string]bool{}
	for _, event := range events {
		uri, err := url.ParseRequestURI(event.RequestURI)
		r.must(uri, err)
		if _, name, ok := strings.Cut(uri.Path, "/secrets"); ok && strings.Contains(event.UserAgent, agent) {
			names[cmp.Or(strings.Trim(name, "/"), strings.TrimPrefix(uri.Query().Get("fieldSelector"), "metadata.name="))] = true
		}
	}
	if len(names) != want {
		r.Errorf("Secrets that requests were sent for: got %v, want %d", names, want)
	}
}
