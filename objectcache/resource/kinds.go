// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
)

// Secrets is the resource of core/v1 Secrets. Without a client a
// resource makes no store.
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	var secrets func(string) typedcorev1.SecretInterface
	if !isNil(client) {
		secrets = client.CoreV1().Secrets
	}
	resource := NewResource(secrets, corev1.SchemeGroupVersion.WithResource("secrets"))
	if resource.source != nil {
		resource.source = sourceFrom(secrets, client)
	}
	resource.immutable = func(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }
	return resource
}

// ConfigMaps is the resource of core/v1 ConfigMaps.
func ConfigMaps(client kubernetes.Interface) Resource[*corev1.ConfigMap] {
	var configMaps func(string) typedcorev1.ConfigMapInterface
	if !isNil(client) {
		configMaps = client.CoreV1().ConfigMaps
	}
	resource := NewResource(configMaps, corev1.SchemeGroupVersion.WithResource("configmaps"))
	if resource.source != nil {
		resource.source = sourceFrom(configMaps, client)
	}
	resource.immutable = func(c *corev1.ConfigMap) bool { return c.Immutable != nil && *c.Immutable }
	return resource
}

// Dynamic is any resource, with objects that have no Go type:
//
//	Dynamic(client, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
//
// The client has no GetClient, so it is used as [NewResource] describes for such a
// client. Make it from a config of manager.ConfigFor: the store cannot see whether
// it has a rate limiter. With a config at hand, prefer
//
//	FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, resource)
//
// which needs fewer goroutines per object. No object counts as immutable.
//
// client-go's dynamic client decodes the streams itself, and limits no event: a server, or a
// proxy, that sends an event without an end makes the program read until memory is full.
// Streams of FromConfig are limited to 4 MiB for an event.
func Dynamic(client dynamic.Interface, resource schema.GroupVersionResource) Resource[*unstructured.Unstructured] {
	r := withoutClient[*unstructured.Unstructured](resource)
	if !isNil(client) {
		namespaced := func(namespace string) dynamic.ResourceInterface {
			return client.Resource(resource).Namespace(namespace)
		}
		r.source = sourceFrom(namespaced, client)
		r.get = getFrom(namespaced, func(ctx context.Context, c dynamic.ResourceInterface, name string) (*unstructured.Unstructured, error) {
			return c.Get(ctx, name, metav1.GetOptions{})
		})
	}
	return r
}

// Metadata is any resource. Only the metadata of its objects is requested and kept.
// The notes on the client of [Dynamic] hold here too; the types for [FromConfig] are
// *metav1.PartialObjectMetadata and *metav1.PartialObjectMetadataList.
func Metadata(client metadata.Interface, resource schema.GroupVersionResource) Resource[*metav1.PartialObjectMetadata] {
	r := withoutClient[*metav1.PartialObjectMetadata](resource)
	if !isNil(client) {
		namespaced := func(namespace string) metadata.ResourceInterface {
			return client.Resource(resource).Namespace(namespace)
		}
		r.source = sourceFrom(namespaced, client)
		r.get = getFrom(namespaced, func(ctx context.Context, c metadata.ResourceInterface, name string) (*metav1.PartialObjectMetadata, error) {
			return c.Get(ctx, name, metav1.GetOptions{})
		})
	}
	return r
}
