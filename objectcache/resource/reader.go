// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Reader reads the objects of a [Resource], for the stores of package objectcache. Other
// programs do not need it.
type Reader[T cache.Object] struct{ resource Resource[T] }

// NewReader returns a Reader. It returns an error if the resource has no client or is
// invalid. It sends no request.
func NewReader[T cache.Object](resource Resource[T]) (*Reader[T], error) {
	if err := resource.check(); err != nil {
		return nil, err
	}
	return &Reader[T]{resource}, nil
}

// Path returns the group, version and resource of the path.
func (r *Reader[T]) Path() schema.GroupVersionResource { return r.resource.pathResource() }

// IsClusterScoped reports whether the objects have no namespace.
func (r *Reader[T]) IsClusterScoped() bool { return r.resource.clusterScoped }

// Immutable returns a function that reports whether an object can never change. It is nil
// if no object of the kind is immutable.
func (r *Reader[T]) Immutable() func(T) bool { return r.resource.immutable }

// IsPrompt reports whether no code of the program runs when an object is decoded: its type is one of
// k8s.io, such as that of objects without a Go type.
func (r *Reader[T]) IsPrompt() bool {
	if r.resource.rest == nil {
		return false
	}
	path := reflect.TypeOf(r.resource.rest.NewObject()).Elem().PkgPath()
	return strings.HasPrefix(path, "k8s.io/api/") || strings.HasPrefix(path, "k8s.io/apimachinery/")
}

// CheckKey returns an error if an object with the key is known to be absent without a request. Then
// apierrors.IsNotFound holds. The error wraps [ErrInvalidName] if no object can have the key: both
// parts become parts of a URL. Else the field selector of [Resource.WithSelector] excludes it.
// For a key without a name, or of the wrong scope, apierrors.IsNotFound does not hold.
func (r *Reader[T]) CheckKey(key types.NamespacedName) error {
	if err := r.resource.names().CheckKey(key); err != nil {
		return err
	}
	return r.resource.checkSelected(key)
}

// Source returns the source of one object.
func (r *Reader[T]) Source(key types.NamespacedName) listwatch.Source {
	return r.resource.sourceOf(key)
}

// HasRESTClient reports whether the resource has a REST client, and no source of its own.
func (r *Reader[T]) HasRESTClient() bool { return r.resource.rest != nil }

// CheckGet returns an error if the resource has a selector, which Read does not apply.
func (r *Reader[T]) CheckGet() error {
	if r.resource.rest != nil && r.resource.rest.Selector != nil {
		return fmt.Errorf("resource %q: %w", r.resource.resource, errSelectorOfGet)
	}
	return nil
}

// Read reads an object with one GET, which the server answers with the newest state, and
// returns the state, also that of an absent object. The version of an absence is not known.
// An error is that of the client: for a path that is not served it is the server's 404. It
// holds no object data. The object is as the server has sent it: see Transform.
func (r *Reader[T]) Read(ctx context.Context, key types.NamespacedName) (cache.State[T], error) {
	return r.resource.readState(ctx, key)
}

// Transform returns what a store keeps of an object that the server has sent, which it may
// change: the object without managedFields, unless KeepsManagedFields, after the function of
// WithTransform. The error matches [ErrTransform].
func (r *Reader[T]) Transform(object T) (T, error) { return r.resource.transform(object) }

// KeepsManagedFields reports whether stores keep managedFields.
func (r *Reader[T]) KeepsManagedFields() bool { return r.resource.managedFields }

// Transforms reports whether there is a function of WithTransform.
func (r *Reader[T]) Transforms() bool { return r.resource.userTransform != nil }

// Error returns an error that names the resource and the key. errors.Is and errors.As find
// all causes.
func (r *Reader[T]) Error(key types.NamespacedName, causes ...error) error {
	return r.resource.newError(key, causes...)
}

// Explain returns the cause of a failure with what to check about the resource.
func (r *Reader[T]) Explain(cause error) error { return r.resource.explained(cause) }

// ExplainFailure is Explain for the error of an attempt, of which a 404 is a
// [NotServedError].
func (r *Reader[T]) ExplainFailure(err error) error { return r.resource.explained(NotServed(err)) }

// RateLimit returns an error that wraps [ErrClientLimited] and names the rate limit of the
// client, and nil if it has none. A source of FromSource hides its limit.
func (r *Reader[T]) RateLimit() error { return r.resource.rateLimitError() }

// readState reads an object with one GET. The version of an absence is not known. An error
// is that of the client: for a path that is not served it is the server's 404.
func (r *Resource[T]) readState(ctx context.Context, key types.NamespacedName) (state cache.State[T], err error) {
	object, err := listwatch.Redacted(ctx, func(ctx context.Context) (T, error) {
		object, err := r.get(ctx, key)
		if err == nil {
			err = r.checkObject(object, key)
		}
		return object, err
	})
	switch {
	case r.isAbsence(err, key.Name):
		return cache.State[T]{Synced: true}, nil
	case err != nil:
		return state, err
	}
	return cache.State[T]{Object: object, Exists: true, Synced: true, ResourceVersion: object.GetResourceVersion()}, nil
}

// isAbsence reports whether an error means that the server has no object of that
// name. The 404 of a path that is not served names no object: it comes from a proxy or
// from kube-apiserver's mux, and client-go adds the name of the request to it.
func (r *Resource[T]) isAbsence(err error, name string) bool {
	var status apierrors.APIStatus
	if apierrors.ReasonForError(err) != metav1.StatusReasonNotFound || !errors.As(err, &status) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Name == name && r.isNamed(details.Kind)
}

// isNamed reports whether the kind in the details of a Status can be that of the resource.
// kube-apiserver writes the plural there. Others write the kind or the singular, with or
// without the group, or nothing.
func (r *Resource[T]) isNamed(kind string) bool {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	if kind == "" || isPointer[T]() && kind == strings.ToLower(reflect.TypeFor[T]().Elem().Name()) {
		return true
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return slices.Contains([]string{kind, kind + "s", plural.Resource}, r.resource.Resource)
}

// checkObject returns an error if the answer to a GET is not the object of that key.
func (r *Resource[T]) checkObject(object T, key types.NamespacedName) error {
	if isNil(object) {
		return redact.Errorf("%w: the client returned neither an object nor an error", cache.ErrMalformed)
	}
	if object.GetNamespace() != key.Namespace || object.GetName() != key.Name {
		return redact.Errorf("%w: the object %s/%s, where %s was asked for",
			cache.ErrMalformed, object.GetNamespace(), object.GetName(), key)
	}
	return r.checkVersion(object)
}

// getFromREST returns a function that gets an object over a REST client.
func getFromREST[T cache.Object](resource *listwatch.RESTResource) func(context.Context, types.NamespacedName) (T, error) {
	return func(ctx context.Context, key types.NamespacedName) (T, error) {
		object, err := resource.Get(ctx, key.Namespace, key.Name)
		if err != nil {
			var none T
			return none, err
		}
		return object.(T), nil // Get returns nothing but the type of NewObject
	}
}
