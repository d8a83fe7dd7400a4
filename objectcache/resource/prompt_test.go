// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// ownSecret is a Secret of the program, whose methods are the program's.
type ownSecret struct{ corev1.Secret }

// Objects are prompt if no code of the program runs when they are decoded and stored.
func TestIsPrompt(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	check := func(name string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	check("Secrets", isPrompt(t, resource.Secrets(clients.Nowhere())), true)
	same := func(secret *corev1.Secret) *corev1.Secret { return secret }
	check("with a function", isPrompt(t, resource.Secrets(clients.Nowhere()).WithTransform(same)), false)
	check("without a Go type", isPrompt(t, resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, secrets)), true)
	check("metadata", isPrompt(t, resource.FromConfig[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList](config, secrets)), true)
	check("a type of the program", isPrompt(t, resource.FromConfig[*ownSecret, *corev1.SecretList](config, secrets)), false)
}

func isPrompt[T cache.Object](t *testing.T, r resource.Resource[T]) bool {
	t.Helper()
	kind, err := r.Kind()
	if err != nil {
		t.Fatal(err)
	}
	return kind.Prompt
}
