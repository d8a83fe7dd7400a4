// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// TestSelector: a Role with resourceNames allows reads that also have label and field selectors, even one of another
// name. The object appears and disappears with its label. What a term on the name excludes is absent, without a
// request, whatever the Role says.
func TestSelector(t *testing.T) {
	for name, options := range servers() {
		t.Run(name, func(t *testing.T) {
			r := newGatewayRig(t, options)
			client := e2e.Client(r, r.cluster.ThroughProxy(r.cluster.User(gateway)))
			web := labels.SelectorFromSet(labels.Set{"app": "web"})
			opaque := fields.ParseSelectorOrDie("type=Opaque,metadata.name!=private")
			secrets := resource.Secrets(client).WithSelector(func(string) resource.Selector { return resource.Selector{Label: web, Field: opaque} })
			store, err := objectcache.NewWatchStore(secrets, objectcache.WatchOptions{})
			r.must(store, err)
			selected, err := manager.New(store, nil)
			r.must(selected, err)
			r.createSecret("tls", "1")
			r.createSecret("private", "canary")
			r.createSecret("foreign", "canary")
			r.grant("certificates", "tls")
			stop := e2e.Run(r, store.Run)
			selected.SetReferences(manager.Owner{Kind: "Gateway", Name: gateway}, keysOf([]string{"tls", "foreign"})...)
			if _, err := store.Get(t.Context(), namespace, "tls"); !apierrors.IsNotFound(err) {
				t.Errorf("without the label: got %v, want NotFound", err)
			}
			if _, err := store.Get(t.Context(), namespace, "private"); !apierrors.IsNotFound(err) {
				t.Errorf("a Secret that the selector excludes: got %v, want NotFound", err)
			}
			if _, err := store.Get(t.Context(), namespace, "foreign"); !apierrors.IsForbidden(err) {
				t.Errorf("a Secret that the Role does not name: got %v, want Forbidden", err)
			}
			r.labelSecret("tls", map[string]string{"app": "web"})
			r.eventuallyValue(selected, "tls", "1")
			r.setSecret("tls", "2") // without the label
			r.eventually("the Secret is absent", func(ctx context.Context) error {
				if _, err := store.Get(ctx, namespace, "tls"); !apierrors.IsNotFound(err) {
					return fmt.Errorf("got error %w, want NotFound", err)
				}
				return nil
			})
			stop()
			r.finish(gateway, allowList{
				objects: []string{"secrets/tls", "secrets/foreign"}, labels: "app=web", fields: ",type=Opaque",
			})
		})
	}
}

func (r *rig) labelSecret(name string, set map[string]string) {
	r.Helper()
	secrets := r.admin.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(r.Context(), name, metav1.GetOptions{})
	r.must(secret, err)
	secret.Labels = set
	r.must(secrets.Update(r.Context(), secret, metav1.UpdateOptions{}))
}
