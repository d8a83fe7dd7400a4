// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// Resource says how to reach one kind of namespaced object. Make one with
// [Secrets], [ConfigMaps] or [NewResource].
type Resource[T cache.Object] struct {
	resource  schema.GroupResource
	rest      *reflector.RESTResource // nil: of a client without one; then source counts
	source    func(types.NamespacedName) reflector.Source
	listsOnly bool // the client says that it cannot do WatchList
	nameRules validation.ValidateNameFunc
	immutable func(T) bool // nil: objects of this kind never are
}

// Client is what a typed client of one namespace offers, as generated for every
// kind: kubernetes.Interface.CoreV1().Secrets(namespace), for one. L is its list
// type.
type Client[T cache.Object, L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
}

// NewResource makes a resource of any typed client:
//
//	NewResource(corev1.Resource("serviceaccounts"), clientset.CoreV1().ServiceAccounts)
//
// The group and resource are those of the client, as in a path. A client that
// gives away its REST client of that group (GetClient, as those of client-go and
// of client-gen since 1.31 do) is asked through it, and its List and Watch are
// not used: see [reflector.FromREST]. To have them used, hide GetClient behind a
// type of your own. Any other client is used as it is; its own retries (up to
// ten, on broken connections and Retry-After) cannot be switched off then, and
// until they end Get knows no cause.
func NewResource[C Client[T, L], T cache.Object, L runtime.Object](resource schema.GroupResource, client func(namespace string) C) Resource[T] {
	r := Resource[T]{
		resource:  resource,
		nameRules: pathSegment,
		listsOnly: watchlist.DoesClientNotSupportWatchListSemantics(client("")),
		source: func(key types.NamespacedName) reflector.Source {
			return named(client(key.Namespace), key.Name)
		},
	}
	if restClient := restClientOf(client(""), resource.Group); restClient != nil {
		r.rest = &reflector.RESTResource{
			Client:    restClient,
			Name:      resource.Resource,
			NewObject: newOf[T],
			NewList:   newOf[L],
		}
	}
	return r
}

// restClientOf returns the REST client of a typed client of a group, nil if it
// gives none away, as those of a fake clientset.
func restClientOf(client any, group string) rest.Interface {
	typed, ok := client.(interface{ GetClient() rest.Interface })
	if !ok {
		return nil
	}
	restClient := typed.GetClient()
	if pointer, ok := restClient.(*rest.RESTClient); restClient == nil || ok && pointer == nil || restClient.APIVersion().Group != group {
		return nil
	}
	return restClient
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
	if r.listsOnly {
		return listsOnly{r.source(key)}
	}
	return r.source(key)
}

// listsOnly is a source of a client that cannot do WatchList, as client-go's fake
// clientset says of itself.
type listsOnly struct{ reflector.Source }

// IsWatchListSemanticsUnSupported is client-go's name for the question.
func (listsOnly) IsWatchListSemanticsUnSupported() bool { return true }

// Secrets is the resource of core/v1 Secrets.
func Secrets(client kubernetes.Interface) Resource[*corev1.Secret] {
	resource := NewResource(corev1.Resource("secrets"), client.CoreV1().Secrets)
	resource.listsOnly = watchlist.DoesClientNotSupportWatchListSemantics(client)
	resource.nameRules = validation.NameIsDNSSubdomain
	resource.immutable = func(s *corev1.Secret) bool { return s.Immutable != nil && *s.Immutable }
	return resource
}

// ConfigMaps is the resource of core/v1 ConfigMaps.
func ConfigMaps(client kubernetes.Interface) Resource[*corev1.ConfigMap] {
	resource := NewResource(corev1.Resource("configmaps"), client.CoreV1().ConfigMaps)
	resource.listsOnly = watchlist.DoesClientNotSupportWatchListSemantics(client)
	resource.nameRules = validation.NameIsDNSSubdomain
	resource.immutable = func(c *corev1.ConfigMap) bool { return c.Immutable != nil && *c.Immutable }
	return resource
}

// named follows one object by a typed client.
func named[T cache.Object, L runtime.Object](client Client[T, L], name string) reflector.Source {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return reflector.FromListerWatcher(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return client.Watch(ctx, options)
		},
	})
}

// validate returns nil if an object of this kind can have that key. Both parts
// end up in a URL.
func (r *Resource[T]) validate(key types.NamespacedName) error {
	problems := validation.ValidateNamespaceName(key.Namespace, false)
	for i := range problems {
		problems[i] = "namespace: " + problems[i]
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
