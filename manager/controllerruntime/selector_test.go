// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

var web = labels.SelectorFromSet(labels.Set{"app": "web"})

// label sets the labels of a Secret.
func (r *rig) label(name string, set map[string]string) {
	r.t.Helper()
	secrets := r.client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	secret.Labels = set
	if _, err := secrets.Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// A cache with a label selector holds the objects that match, as the stock cache does: one that matches no longer is
// deleted, and one that matches again is added. Each request has the selector beside the name.
func TestLabelSelector(t *testing.T) {
	for name, stock := range map[string]cache.Options{
		"of the kind":    {ByObject: ofSecrets(cache.ByObject{Label: web})},
		"of all kinds":   {DefaultLabelSelector: web},
		"of a namespace": {DefaultNamespaces: map[string]cache.Config{namespace: {LabelSelector: web}}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, stock, func(t *testing.T, r *rig) {
				seen := r.record(&corev1.Secret{})
				r.create("one", "1")
				r.create("two", "2")
				r.label("two", nil)
				r.wantValue("one", "1")
				if _, err := r.get("two"); !apierrors.IsNotFound(err) {
					t.Errorf("an object that does not match: got %v, want NotFound", err)
				}
				seen.want(t, "at first", "add one=1")
				r.label("one", map[string]string{"app": "db"})
				if _, err := r.get("one"); !apierrors.IsNotFound(err) {
					t.Errorf("an object that matches no longer: got %v, want NotFound", err)
				}
				seen.want(t, "without the label", "delete one=1")
				r.label("one", map[string]string{"app": "web"})
				r.wantValue("one", "1")
				seen.want(t, "with the label again", "add one=1")
				r.wantSelected("app=web")
			})
		})
	}
}

// wantSelected checks that each read of the cache selects by its name and the labels.
func (r *rig) wantSelected(labels string) {
	r.t.Helper()
	reads := 0
	for _, request := range r.server.Requests() {
		if request.Resource != "secrets" || request.Verb != "list" && request.Verb != "watch" {
			continue
		}
		reads++
		want := "metadata.name=" + request.Name
		if got := request.Query; got.Get("labelSelector") != labels || got.Get("fieldSelector") != want {
			r.t.Errorf("%s: got the selectors %q and %q, want %q and %q", request.Verb, got["labelSelector"], got["fieldSelector"], labels, want)
		}
	}
	if reads == 0 {
		r.t.Error("got no read")
	}
}
