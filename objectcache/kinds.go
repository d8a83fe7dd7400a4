// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
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

// Secrets is the resource of core/v1 Secrets. Without a client (nil) it is good
// for [Resource.Roles] alone, as are [ConfigMaps], [Dynamic] and [Metadata].
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	var secrets func(string) typedcorev1.SecretInterface
	if !isNil(client) {
		secrets = client.CoreV1().Secrets
	}
	resource := NewResource(corev1.Resource("secrets"), secrets)
	if resource.source != nil {
		resource.source = sourceOver(secrets, client)
	}
	resource.nameRules = validation.NameIsDNSSubdomain
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
		resource.source = sourceOver(configMaps, client)
	}
	resource.nameRules = validation.NameIsDNSSubdomain
	resource.immutable = func(c *corev1.ConfigMap) bool { return c.Immutable != nil && *c.Immutable }
	return resource
}

// Dynamic is any namespaced resource, its objects without a Go type:
//
//	Dynamic(client, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
//
// The client keeps its REST client to itself, so it is used as [NewResource]
// says of any other client. Make it of manager.ConfigFor: whether it limits its
// own requests cannot be seen. No object counts as immutable.
func Dynamic(client dynamic.Interface, resource schema.GroupVersionResource) Resource[*unstructured.Unstructured] {
	r := unversioned[*unstructured.Unstructured](resource)
	if !isNil(client) {
		r.source = sourceOver(func(namespace string) dynamic.ResourceInterface {
			return client.Resource(resource).Namespace(namespace)
		}, client)
	}
	return r
}

// Metadata is any namespaced resource, of whose objects only the metadata is
// asked for and kept. What [Dynamic] says of the client holds here too.
func Metadata(client metadata.Interface, resource schema.GroupVersionResource) Resource[*metav1.PartialObjectMetadata] {
	r := unversioned[*metav1.PartialObjectMetadata](resource)
	if !isNil(client) {
		r.source = sourceOver(func(namespace string) metadata.ResourceInterface {
			return client.Resource(resource).Namespace(namespace)
		}, client)
	}
	return r
}

// unversioned returns the resource without its version, which only the client
// needs, and without a client.
func unversioned[T cache.Object](resource schema.GroupVersionResource) Resource[T] {
	r := Resource[T]{resource: resource.GroupResource(), misnamed: misnamed(resource.GroupResource()), nameRules: pathSegment}
	if resource.Version == "" && r.misnamed == nil {
		r.misnamed = errors.New("it has no version: name that of a path, such as \"v1\"")
	}
	return r
}
