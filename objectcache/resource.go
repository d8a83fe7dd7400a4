// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// Resource describes one kind of namespaced object and how to reach it. Make one
// with [Secrets], [ConfigMaps], [NewResource], [Dynamic] or [Metadata]. If it is
// invalid, [NewWatchStore] returns an error.
type Resource[T cache.Object] struct {
	resource     schema.GroupResource
	nameError    error                   // why resource is invalid; nil if it is valid
	rest         *listwatch.RESTResource // nil if the client has no GetClient: source is used then
	source       func(types.NamespacedName) listwatch.Source
	get          func(context.Context, types.NamespacedName) (T, error) // sends a GET; nil without a client
	validateName validation.ValidateNameFunc
	immutable    func(T) bool // nil if no object of this kind is immutable
}

// Client is the part of a typed client of one namespace that a store needs. Clients
// are generated for every kind, such as
// kubernetes.Interface.CoreV1().Secrets(namespace). L is the list type.
type Client[T cache.Object, L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	// Get is called by stores that do not watch. Its result also names T, so that
	// callers of [NewResource] need not write type arguments.
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// NewResource returns the resource of any typed client:
//
//	NewResource(corev1.Resource("serviceaccounts"), clientset.CoreV1().ServiceAccounts)
//
// The group and resource are those of the client, as in a path. [NewWatchStore]
// returns an error for a client of another group, and for a client of another
// resource if its kind is one of Kubernetes' own. Use [Dynamic] or [Metadata] for
// clients without types.
//
// NewResource calls client once, with the namespace "default", to inspect what it
// returns. It sends no request. Later, client is called with the namespaces of
// references.
//
// If the client has a method GetClient, as those of client-go and of client-gen
// since 1.31 have, the store uses the REST client that it returns, and not List, Watch
// and Get: see [listwatch.FromREST]. To use these methods, hide GetClient behind a
// type of your own. They retry up to ten times, after a broken connection or a
// Retry-After, and Get knows no cause before they return.
func NewResource[C Client[T, L], T cache.Object, L runtime.Object](resource schema.GroupResource, client func(namespace string) C) Resource[T] {
	r := Resource[T]{resource: resource, nameError: checkResourceName(resource), validateName: validatePathSegment}
	if client == nil {
		return r
	}
	example := client(metav1.NamespaceDefault)
	if isNil(example) {
		return r
	}
	if r.nameError == nil {
		r.nameError = checkKind[T](resource)
	}
	r.source = sourceFrom(client, example)
	r.get = getFrom(client, func(ctx context.Context, c C, name string) (T, error) { return c.Get(ctx, name, metav1.GetOptions{}) })
	if restClient := restClientOf(example); restClient != nil {
		if group := restClient.APIVersion().Group; group != resource.Group && r.nameError == nil {
			r.nameError = fmt.Errorf("its client is of the group %q: name that group, or pass a client of %q", group, resource.Group)
		}
		r.rest = &listwatch.RESTResource{
			Client:    restClient,
			Name:      resource.Resource,
			NewObject: newOf[T],
			NewList:   newOf[L],
		}
		r.get = getFromREST[T](r.rest)
	}
	return r
}

// checkResourceName returns an error if a path cannot name the resource.
func checkResourceName(resource schema.GroupResource) error {
	if len(validation.NameIsDNSLabel(resource.Resource, false)) > 0 {
		return fmt.Errorf("%q is no resource: name it as in a path, plural and in lower case, such as %q", resource.Resource, "secrets")
	}
	return nil
}

// checkKind returns an error if another resource of the group serves objects of
// type T. It knows only Kubernetes' own kinds, whose plurals are regular.
func checkKind[T cache.Object](resource schema.GroupResource) error {
	if reflect.TypeFor[T]().Kind() != reflect.Pointer {
		return nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(newOf[T]())
	if err != nil {
		return nil // not one of Kubernetes' own kinds
	}
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		if kind.Group == resource.Group && plural.Resource != resource.Resource {
			return fmt.Errorf("its client is of the resource %q: name that, or pass a client of %q", plural.Resource, resource.Resource)
		}
	}
	return nil
}

// restClientOf returns the REST client of a typed client, and nil if it has none,
// as in a fake clientset.
func restClientOf(client any) rest.Interface {
	typed, ok := client.(interface{ GetClient() rest.Interface })
	if !ok {
		return nil
	}
	if restClient := typed.GetClient(); !isNil(restClient) {
		return restClient
	}
	return nil
}

// newOf returns a new object of the type T, which is a pointer.
func newOf[T runtime.Object]() runtime.Object {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// sourceOf returns a source that lists and watches one object.
func (r *Resource[T]) sourceOf(key types.NamespacedName) listwatch.Source {
	if r.rest != nil {
		return listwatch.FromREST(r.rest, key.Namespace, key.Name)
	}
	return r.source(key)
}

var (
	errNoClient     = errors.New("the client is nil: make one with manager.ClientFor, or from the config that manager.ConfigFor returns")
	errZeroResource = errors.New("the Resource is the zero value: make one with Secrets, ConfigMaps, NewResource, Dynamic or Metadata")
)

// checkName returns an error if the resource is invalid, whatever its client.
func (r *Resource[T]) checkName() error {
	switch {
	case r.validateName == nil:
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
	if r.source == nil {
		return fmt.Errorf("resource %q: %w", r.resource, errNoClient)
	}
	return nil
}

// validateKey returns an error if no object of this kind can have the key. Both
// parts of the key become parts of a URL.
func (r *Resource[T]) validateKey(key types.NamespacedName) error {
	if err := r.checkName(); err != nil {
		return err
	}
	var problems []string
	if key.Namespace == "" {
		problems = append(problems, "namespace: may not be empty: only namespaced objects can be watched")
	} else {
		for _, problem := range validation.ValidateNamespaceName(key.Namespace, false) {
			problems = append(problems, "namespace: "+problem)
		}
	}
	if key.Name == "" {
		problems = append(problems, "name: may not be empty")
	} else {
		for _, problem := range r.validateName(key.Name, false) {
			problems = append(problems, "name: "+problem)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return r.newError(key, fmt.Errorf("%w: %s", ErrInvalidName, strings.Join(problems, "; ")))
}

// newError returns an error that names the resource and the key.
func (r *Resource[T]) newError(key types.NamespacedName, causes ...error) error {
	return &keyError{r.resource.String(), key, causes}
}

// validatePathSegment is the rule for names of any kind: they have to fit in a URL.
func validatePathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
