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
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// Resource says how to reach one kind of namespaced object. Make one with
// [Secrets], [ConfigMaps], [NewResource], [Dynamic] or [Metadata]. Whatever is
// wrong with it is returned by [NewWatchStore].
type Resource[T cache.Object] struct {
	resource  schema.GroupResource
	misnamed  error                   // what is wrong with resource
	rest      *reflector.RESTResource // nil: of a client without one; then source counts
	source    func(types.NamespacedName) reflector.Source
	nameRules validation.ValidateNameFunc
	immutable func(T) bool // nil: objects of this kind never are
}

// Client is what a typed client of one namespace offers, as generated for every
// kind: kubernetes.Interface.CoreV1().Secrets(namespace), for one. L is its list
// type.
type Client[T cache.Object, L runtime.Object] interface {
	listWatcher[L]
	// Get is never called. It is what names T, so that [NewResource] needs no
	// type arguments.
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// NewResource makes a resource of any typed client:
//
//	NewResource(corev1.Resource("serviceaccounts"), clientset.CoreV1().ServiceAccounts)
//
// The group and resource are those of the client, as in a path. [NewWatchStore]
// returns an error for a client of another group, and for a client of another
// resource if its kind is one of Kubernetes' own. For clients without types
// there are [Dynamic] and [Metadata].
//
// The function client is called once here, with the namespace "default", to see
// what it returns; no request is made. Later it is called with the namespaces of
// references.
//
// A client that gives away its REST client (GetClient, as those of client-go and
// of client-gen since 1.31 do) is asked through it, and its List and Watch are
// not used: see [reflector.FromREST]. To have them used, hide GetClient behind a
// type of your own. Any other client is used as it is; its own retries (up to
// ten, on broken connections and Retry-After) cannot be switched off then, and
// until they end Get knows no cause.
func NewResource[C Client[T, L], T cache.Object, L runtime.Object](resource schema.GroupResource, client func(namespace string) C) Resource[T] {
	r := Resource[T]{resource: resource, misnamed: misnamed(resource), nameRules: pathSegment}
	if client == nil {
		return r
	}
	example := client(metav1.NamespaceDefault)
	if isNil(example) {
		return r
	}
	if r.misnamed == nil {
		r.misnamed = mismatched[T](resource)
	}
	r.source = sourceOver(client, example)
	if restClient := restClientOf(example); restClient != nil {
		if group := restClient.APIVersion().Group; group != resource.Group && r.misnamed == nil {
			r.misnamed = fmt.Errorf("its client is of the group %q: name that group, or pass a client of %q", group, resource.Group)
		}
		r.rest = &reflector.RESTResource{
			Client:    restClient,
			Name:      resource.Resource,
			NewObject: newOf[T],
			NewList:   newOf[L],
		}
	}
	return r
}

// misnamed returns an error for what cannot be a resource in a path.
func misnamed(resource schema.GroupResource) error {
	if len(validation.NameIsDNSLabel(resource.Resource, false)) > 0 {
		return fmt.Errorf("%q is no resource: name it as in a path, plural and in lower case, such as %q", resource.Resource, "secrets")
	}
	return nil
}

// mismatched returns an error if objects of type T are served by another resource
// of the group. Only the kinds of Kubernetes' own are known, and their plurals
// are regular.
func mismatched[T cache.Object](resource schema.GroupResource) error {
	if reflect.TypeFor[T]().Kind() != reflect.Pointer {
		return nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(newOf[T]())
	if err != nil {
		return nil // a kind of somebody else's
	}
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		if kind.Group == resource.Group && plural.Resource != resource.Resource {
			return fmt.Errorf("its client is of the resource %q: name that, or pass a client of %q", plural.Resource, resource.Resource)
		}
	}
	return nil
}

// restClientOf returns the REST client of a typed client, nil if it gives none
// away, as those of a fake clientset.
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

// newOf returns a new object of a type that is a pointer.
func newOf[T runtime.Object]() runtime.Object {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
}

// sourceOf is where an object is listed and watched.
func (r *Resource[T]) sourceOf(key types.NamespacedName) reflector.Source {
	if r.rest != nil {
		return reflector.FromREST(r.rest, key.Namespace, key.Name)
	}
	return r.source(key)
}

var (
	errNoClient     = errors.New("the client is nil: make one with manager.ClientFor, or of manager.ConfigFor")
	errZeroResource = errors.New("the Resource is the zero value: make one with Secrets, ConfigMaps, NewResource, Dynamic or Metadata")
)

// named returns an error that says what is wrong with the resource apart from
// its client.
func (r *Resource[T]) named() error {
	switch {
	case r.nameRules == nil:
		return errZeroResource
	case r.misnamed != nil:
		return fmt.Errorf("resource %q: %w", r.resource, r.misnamed)
	}
	return nil
}

// usable returns an error that says why no store can be made of the resource.
func (r *Resource[T]) usable() error {
	if err := r.named(); err != nil {
		return err
	}
	if r.source == nil {
		return fmt.Errorf("resource %q: %w", r.resource, errNoClient)
	}
	return nil
}

// isNil reports whether an interface holds nothing, or a pointer to nothing.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

// validate returns nil if an object of this kind can have that key. Both parts
// end up in a URL.
func (r *Resource[T]) validate(key types.NamespacedName) error {
	if err := r.named(); err != nil {
		return err
	}
	var problems []string
	if key.Namespace == "" {
		problems = append(problems, "namespace: may not be empty: only namespaced objects can be followed")
	} else {
		for _, problem := range validation.ValidateNamespaceName(key.Namespace, false) {
			problems = append(problems, "namespace: "+problem)
		}
	}
	if key.Name == "" {
		problems = append(problems, "name: may not be empty")
	} else {
		for _, problem := range r.nameRules(key.Name, false) {
			problems = append(problems, "name: "+problem)
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return r.fail(key, fmt.Errorf("%w: %s", ErrInvalidName, strings.Join(problems, "; ")))
}

// fail returns an error that names the resource and the key.
func (r *Resource[T]) fail(key types.NamespacedName, causes ...error) error {
	return &keyError{r.resource.String(), key, causes}
}

// pathSegment are the rules for names of kinds in general: what fits in a URL.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
