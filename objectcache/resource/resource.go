// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/objectcache/internal/names"
)

// Resource describes one kind of object and how to reach it. If it is invalid, the
// constructors of stores return an error. Make one with
//
//   - [Secrets] or [ConfigMaps], of a clientset
//   - [Typed] or [TypedFunc], of a REST client, for any Go type
//   - [FromConfig], of a config, for any Go type
//   - [FromSource], of sources of your own
//
// Its methods [Resource.ClusterScoped], [Resource.WithManagedFields], [Resource.WithSelector] and
// [Resource.WithTransform] return a changed copy.
type Resource[T cache.Object] struct {
	resource      schema.GroupResource
	version       string
	clusterScoped bool
	nameError     error                   // why the resource is invalid; nil if it is valid
	clientError   error                   // why it has no client; nil if it has one, or was given none
	rest          *listwatch.RESTResource // nil with FromSource: source is used then
	source        func(types.NamespacedName) listwatch.Source
	get           func(context.Context, types.NamespacedName) (T, error) // sends a GET; nil without a client
	immutable     func(T) bool                                           // nil if no object of this kind is immutable
	userTransform func(T) T                                              // of WithTransform; may be nil
	managedFields bool                                                   // stores keep them: WithManagedFields
}

// withoutClient returns a resource that has no client yet.
func withoutClient[T cache.Object](resource schema.GroupVersionResource) Resource[T] {
	r := Resource[T]{
		resource:  resource.GroupResource(),
		version:   resource.Version,
		nameError: names.Resource{GroupVersionResource: resource}.Check(),
		immutable: immutableOf[T](),
	}
	if isPointer[T]() {
		r.nameError = cmp.Or(r.nameError, checkKind(newOf[T](), resource))
	}
	return r
}

// useREST makes r use a REST client, and decode into what the functions return.
func (r *Resource[T]) useREST(client rest.Interface, newObject, newList func() runtime.Object) {
	r.nameError = cmp.Or(r.nameError, checkVersion(client, r.pathResource().GroupVersion()))
	r.rest = &listwatch.RESTResource{
		Client: client, Name: r.resource.Resource, NewObject: newObject, NewList: newList,
		WithoutManagedFields: !r.managedFields,
	}
	r.get = getFromREST[T](r.rest)
}

// checkKind returns an error if another resource serves objects of the type of object. It
// knows only Kubernetes' own kinds, whose plurals are regular.
func checkKind(object runtime.Object, resource schema.GroupVersionResource) error {
	if _, ok := object.(runtime.Unstructured); ok {
		return nil // of the kind that it says
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil // not one of Kubernetes' own kinds
	}
	var names []string
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		if plural == resource {
			return nil
		}
		names = append(names, nameOf(plural))
	}
	return fmt.Errorf("its objects are those of %s: name that, or use the type of %s", strings.Join(names, " or "), nameOf(resource))
}

// checkVersion returns an error if a client is not one of the group and version.
func checkVersion(client rest.Interface, version schema.GroupVersion) error {
	switch got := client.APIVersion(); got {
	case version:
		return nil
	case schema.GroupVersion{}:
		return fmt.Errorf("its REST client has no group and version: set GroupVersion of its config to %q, or use resource.FromConfig", version)
	default:
		return fmt.Errorf("its client is one of %q: name that group and version, or pass a client of %q", got, version)
	}
}

// checkTypes returns an error if the types of objects and lists cannot be made.
func checkTypes[T, L runtime.Object]() error {
	if !isPointer[T]() || !isPointer[L]() {
		return fmt.Errorf("its types are %v and %v: they must be pointers to structs", reflect.TypeFor[T](), reflect.TypeFor[L]())
	}
	return nil
}

// isPointer reports whether T is a pointer to a struct.
func isPointer[T any]() bool {
	t := reflect.TypeFor[T]()
	return t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct
}

// nameOf returns how errors name a resource: resource "deployments" of "apps/v1".
func nameOf(resource schema.GroupVersionResource) string {
	return fmt.Sprintf("the resource %q of %q", resource.Resource, resource.GroupVersion())
}

// newOf returns a new object of the type T, which is a pointer.
func newOf[T runtime.Object]() runtime.Object {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// sourceOf returns a source that lists and watches one object.
func (r *Resource[T]) sourceOf(key types.NamespacedName) listwatch.Source {
	var source listwatch.Source
	if r.rest != nil {
		source = listwatch.FromREST(r.rest, key.Namespace, key.Name)
	} else {
		source = r.source(key)
	}
	return r.accepted(source)
}

// pathResource returns the group, version and resource of the path.
func (r *Resource[T]) pathResource() schema.GroupVersionResource {
	return r.resource.WithVersion(r.version)
}

// names returns what the path says of the resource.
func (r *Resource[T]) names() names.Resource {
	return names.Resource{GroupVersionResource: r.pathResource(), ClusterScoped: r.clusterScoped}
}

var (
	errNoClient     = errors.New("the client is nil: make one from the config that resource.ConfigFor returns; in tests use test/apiserver, for a fake clientset has no REST client")
	errZeroResource = errors.New("the Resource is the zero value: make one with Secrets, ConfigMaps, Typed, FromConfig or FromSource of package resource")
)

// checkName returns an error if the resource is invalid, whatever its client.
func (r *Resource[T]) checkName() error {
	switch {
	case r.resource.Empty() && r.nameError == nil:
		return errZeroResource
	case r.nameError != nil:
		return fmt.Errorf("resource %q: %w", r.resource, r.nameError)
	}
	return nil
}

// check returns an error if the resource is invalid or has no client.
func (r *Resource[T]) check() error {
	if err := r.checkName(); err != nil {
		return err
	}
	if r.source == nil && r.rest == nil {
		return fmt.Errorf("resource %q: %w", r.resource, cmp.Or(r.clientError, errNoClient))
	}
	return nil
}

// newError returns an error that names the resource and the key.
func (r *Resource[T]) newError(key types.NamespacedName, causes ...error) error {
	explained := make([]error, 0, len(causes))
	for _, cause := range causes {
		explained = append(explained, r.explained(cause))
	}
	return &names.KeyError{Resource: r.resource.String(), Key: key, Causes: explained}
}

// ClusterScoped returns the resource as one of a cluster-scoped kind, of which no client
// knows:
//
//	Typed[*corev1.Node, *corev1.NodeList](clientset.CoreV1().RESTClient(),
//		corev1.SchemeGroupVersion.WithResource("nodes")).ClusterScoped()
//
// The namespace of the objects is empty, in keys, in references and in Get. Their
// permissions are ClusterRoles.
//
// A cluster-scoped kind that is not marked so is a [NotServedError] at the first
// request. A namespaced kind that is marked so is not always found: its requests select a
// name in all namespaces. The server refuses them (403) if it allows only one namespace.
// Otherwise Get returns an error that wraps [cache.ErrForeign] if any namespace has an
// object of that name, and NotFound if none has.
func (r Resource[T]) ClusterScoped() Resource[T] {
	r.clusterScoped = true
	return r
}
