// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
)

// Typed is any resource whose objects have the type T, and their lists the type L, over the
// REST client of its group and version, which each typed clientset has. T and L are
// pointers to structs. They need not be registered in a scheme, and whatever serializer the
// client has, the answers are decoded by codecs of the library: from protobuf if the types
// can be, else from JSON. Nothing checks that L is the list type of T: a store with another
// one fails once it has to list.
//
//	Typed[*appsv1.Deployment, *appsv1.DeploymentList](clientset.AppsV1().RESTClient(),
//		appsv1.SchemeGroupVersion.WithResource("deployments"))
//
// As T and L, *unstructured.Unstructured and *unstructured.UnstructuredList hold objects
// of any kind; with *metav1.PartialObjectMetadata and *metav1.PartialObjectMetadataList
// only the metadata of the objects is requested and kept.
//
// Stores return an error for a client of another group or version, and for a type of
// Kubernetes' own that another resource serves. Whether the server serves the resource
// shows at the first request: see [NotServedError].
func Typed[T cache.Object, L runtime.Object](client rest.Interface, resource schema.GroupVersionResource) Resource[T] {
	r := withoutClient[T](resource)
	if !isNil(client) {
		r.nameError = cmp.Or(r.nameError, checkTypes[T, L]())
		r.useREST(client, newOf[T], newOf[L])
	}
	return r
}

// TypedFunc is [Typed] for types that are known only when the program runs, such as
// those of a [runtime.Scheme]. T is an interface, such as client.Object of
// controller-runtime. newObject and newList return an empty object of the kind, and an
// empty list of such objects. Each call must return at once, and the same type.
//
// No object counts as immutable. If a function is nil, or returns no pointer to a struct,
// stores return an error.
func TypedFunc[T cache.Object](client rest.Interface, resource schema.GroupVersionResource, newObject func() T, newList func() runtime.Object) Resource[T] {
	r := withoutClient[T](resource)
	if newObject == nil || newList == nil || !isStructPointer(newObject()) || !isStructPointer(newList()) {
		r.nameError = cmp.Or(r.nameError, errNoTypes)
		return r
	}
	r.nameError = cmp.Or(r.nameError, checkKind(newObject(), resource))
	if !isNil(client) {
		r.useREST(client, func() runtime.Object { return newObject() }, newList)
	}
	return r
}

var errNoTypes = errors.New("its functions return no objects and lists: they must return pointers to structs")

// isStructPointer reports whether an interface holds a pointer to a struct.
func isStructPointer(v any) bool {
	t := reflect.TypeOf(v)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && !isNil(v)
}

// FromConfig is [Typed] with a client that it makes from a copy of config, with the
// settings of [ConfigFor]. A program with a controller-runtime manager passes
// manager.GetConfig(). Each call makes a client with connections of its own; to share
// them, make the clients with rest.RESTClientForConfigAndClient and call Typed.
//
// FromConfig sends no request. Stores return the error of client-go for a
// config of which no client can be made.
func FromConfig[T cache.Object, L runtime.Object](config *rest.Config, resource schema.GroupVersionResource) Resource[T] {
	client, err := restClientFor(config, resource.GroupVersion())
	if err != nil {
		r := withoutClient[T](resource)
		r.clientError = err
		return r
	}
	return Typed[T, L](client, resource)
}

// restClientFor returns a REST client for many streams.
func restClientFor(config *rest.Config, version schema.GroupVersion) (rest.Interface, error) {
	if config == nil {
		return nil, errors.New("the config is nil: pass that of the program")
	}
	config = ConfigFor(config)
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	// For the errors of the server. Objects are decoded without the client.
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("no client can be made from the config: %w", err)
	}
	return client, nil
}

// Secrets is the resource of core/v1 Secrets.
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	return ofClientset[*corev1.Secret, *corev1.SecretList](client, "secrets")
}

// ConfigMaps is the resource of core/v1 ConfigMaps.
func ConfigMaps(client kubernetes.Interface) Resource[*corev1.ConfigMap] {
	return ofClientset[*corev1.ConfigMap, *corev1.ConfigMapList](client, "configmaps")
}

// ofClientset returns a resource of the group core.
func ofClientset[T cache.Object, L runtime.Object](client kubernetes.Interface, name string) Resource[T] {
	path := corev1.SchemeGroupVersion.WithResource(name)
	if isNil(client) {
		return Typed[T, L](nil, path)
	}
	r := Typed[T, L](client.CoreV1().RESTClient(), path)
	if r.rest == nil {
		r.clientError = errNoRESTClient
	}
	return r
}

var errNoRESTClient = errors.New("the clientset has no REST client, as client-go's fake one: use test/apiserver in tests, or make a source for resource.FromSource")

// immutableOf returns a function that reports whether an object can never change, and nil
// if no object of the type T is immutable.
func immutableOf[T cache.Object]() func(T) bool {
	var object T
	switch any(object).(type) {
	case *corev1.Secret:
		return func(object T) bool { return isTrue(any(object).(*corev1.Secret).Immutable) }
	case *corev1.ConfigMap:
		return func(object T) bool { return isTrue(any(object).(*corev1.ConfigMap).Immutable) }
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }
