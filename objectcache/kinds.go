// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"github.com/refwatch/refwatch/cache"
)

// Secrets is the resource of core/v1 Secrets. With a nil client it serves for
// [Resource.Roles] only, as do [ConfigMaps], [Dynamic] and [Metadata].
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	var secrets func(string) typedcorev1.SecretInterface
	if !isNil(client) {
		secrets = client.CoreV1().Secrets
	}
	resource := NewResource(corev1.Resource("secrets"), secrets)
	if resource.source != nil {
		resource.source = sourceFrom(secrets, client)
	}
	resource.validateName = validation.NameIsDNSSubdomain
	resource.immutable = func(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }
	return resource
}

// ConfigMaps is the resource of core/v1 ConfigMaps.
func ConfigMaps(client kubernetes.Interface) Resource[*corev1.ConfigMap] {
	var configMaps func(string) typedcorev1.ConfigMapInterface
	if !isNil(client) {
		configMaps = client.CoreV1().ConfigMaps
	}
	resource := NewResource(corev1.Resource("configmaps"), configMaps)
	if resource.source != nil {
		resource.source = sourceFrom(configMaps, client)
	}
	resource.validateName = validation.NameIsDNSSubdomain
	resource.immutable = func(c *corev1.ConfigMap) bool { return c.Immutable != nil && *c.Immutable }
	return resource
}

// Dynamic is any namespaced resource, with objects that have no Go type:
//
//	Dynamic(client, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
//
// The client has no GetClient, so it is used as [NewResource] describes for such a
// client. Make it from a config of manager.ConfigFor: the store cannot see whether
// it has a rate limiter. No object counts as immutable.
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

// Metadata is any namespaced resource. Only the metadata of its objects is
// requested and kept. The notes on the client of [Dynamic] hold here too.
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

// withoutClient returns a resource without a client. Only the client needs the
// version.
func withoutClient[T cache.Object](resource schema.GroupVersionResource) Resource[T] {
	r := Resource[T]{resource: resource.GroupResource(), nameError: checkResourceName(resource.GroupResource()), validateName: validatePathSegment}
	if resource.Version == "" && r.nameError == nil {
		r.nameError = errors.New("it has no version: name that of a path, such as \"v1\"")
	}
	return r
}
