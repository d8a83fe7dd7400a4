// SPDX-License-Identifier: Apache-2.0

// Package clients makes resources of client-go's clients that have no REST client: dynamic
// and metadata clients, fake clientsets, and typed clients of a program's own. It shows how
// to use [resource.FromSource], and tests use it for streams that such a client decodes, or
// that net/http reads.
package clients

import (
	"context"
	"net/http"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// Client is the part of a typed client of one namespace that a store needs. L is the list
// type.
type Client[T cache.Object, L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// Typed is a resource over typed clients. client returns that of a namespace.
func Typed[C Client[T, L], T cache.Object, L runtime.Object](client func(namespace string) C, path schema.GroupVersionResource) resource.Resource[T] {
	return resource.FromSource(source[C, T, L]{client, nil}, path)
}

// Fake is [Typed] for a client of a fake clientset, which does not support WatchList.
func Fake[C Client[T, L], T cache.Object, L runtime.Object](client func(namespace string) C, clientset any, path schema.GroupVersionResource) resource.Resource[T] {
	return resource.FromSource(source[C, T, L]{client, clientset}, path)
}

// FakeSecrets is [resource.Secrets] over a fake clientset.
func FakeSecrets(clientset kubernetes.Interface) resource.Resource[*corev1.Secret] {
	return Fake(clientset.CoreV1().Secrets, clientset, corev1.SchemeGroupVersion.WithResource("secrets"))
}

// Nowhere is a clientset for tests that send no request.
func Nowhere() kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://nowhere.invalid"})
}

// NetHTTP returns the config of clients whose streams net/http reads, also if they are those of
// [resource.ConfigFor]: none can be parked. They have connections of their own.
func NetHTTP(config *rest.Config) (*rest.Config, error) {
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // the default; client-go shares no transport with a function
	}
	transport, err := rest.TransportFor(config)
	return &rest.Config{Host: config.Host, UserAgent: config.UserAgent, Transport: transport}, err
}

// Dynamic is any resource, with objects that have no Go type.
func Dynamic(client dynamic.Interface, path schema.GroupVersionResource) resource.Resource[*unstructured.Unstructured] {
	return Fake(func(namespace string) withoutSubresources[*unstructured.Unstructured, *unstructured.UnstructuredList] {
		return withoutSubresources[*unstructured.Unstructured, *unstructured.UnstructuredList]{client.Resource(path).Namespace(namespace)}
	}, client, path)
}

// Metadata is any resource, of which only the metadata is requested.
func Metadata(client metadata.Interface, path schema.GroupVersionResource) resource.Resource[*metav1.PartialObjectMetadata] {
	return Fake(func(namespace string) withoutSubresources[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList] {
		return withoutSubresources[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{client.Resource(path).Namespace(namespace)}
	}, client, path)
}

// withoutSubresources is a dynamic or metadata client as a Client.
type withoutSubresources[T, L any] struct {
	client interface {
		List(ctx context.Context, options metav1.ListOptions) (L, error)
		Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
		Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (T, error)
	}
}

// List lists objects.
func (c withoutSubresources[T, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	return c.client.List(ctx, options)
}

// Watch watches objects.
func (c withoutSubresources[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.client.Watch(ctx, options)
}

// Get gets an object.
func (c withoutSubresources[T, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (T, error) {
	return c.client.Get(ctx, name, options)
}

// source implements [resource.Source] with the client of each namespace.
type source[C Client[T, L], T cache.Object, L runtime.Object] struct {
	client    func(namespace string) C
	clientset any // that of the client, or nil
}

// IsWatchListSemanticsUnSupported implements the method that reflectors look for.
func (s source[C, T, L]) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(s.clientset)
}

// List implements [resource.Source].
func (s source[C, T, L]) List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	client, err := s.of(namespace)
	if err != nil {
		return nil, err
	}
	return client.List(ctx, options)
}

// Watch implements [resource.Source].
func (s source[C, T, L]) Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	client, err := s.of(namespace)
	if err != nil {
		return nil, err
	}
	return client.Watch(ctx, options)
}

// Get implements [resource.Source].
func (s source[C, T, L]) Get(ctx context.Context, namespace, name string) (T, error) {
	client, err := s.of(namespace)
	if err != nil {
		var none T
		return none, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// of returns the client of a namespace.
func (s source[C, T, L]) of(namespace string) (C, error) {
	client := s.client(namespace)
	if value := reflect.ValueOf(client); !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return client, redact.Errorf("the resource has no client for namespace %q: its function returned nil", namespace)
	}
	return client, nil
}
