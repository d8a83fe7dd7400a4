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
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/kinds"
)

// Kind returns what the stores of package objectcache need, and an error if the resource has no
// client or is invalid. It is not for programs: its result may change at any time. It sends no request.
func (r Resource[T]) Kind() (*kinds.Kind[T], error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	return &kinds.Kind[T]{
		Path: r.pathResource(), ClusterScoped: r.clusterScoped, HasREST: r.rest != nil, Prompt: r.isPrompt(),
		Immutable: r.immutable, CheckGet: r.checkGet, CheckKey: r.CheckKey, RateLimit: r.rateLimitError, Source: r.sourceOf,
		Read: r.readState, Transform: r.transform, Error: r.newError, Explain: r.explained,
	}, nil
}

// isPrompt reports whether no code of the program runs when an object is decoded and stored: its type
// is one of k8s.io, such as that of objects without a Go type, and there is no function of WithTransform.
func (r *Resource[T]) isPrompt() bool {
	if r.rest == nil || r.userTransform != nil {
		return false
	}
	path := reflect.TypeOf(r.rest.NewObject()).Elem().PkgPath()
	return strings.HasPrefix(path, "k8s.io/api/") || strings.HasPrefix(path, "k8s.io/apimachinery/")
}

// CheckKey returns an error if an object with the key is known to be absent without a request. Then
// apierrors.IsNotFound holds. The error wraps ErrInvalidName of objectcache if no object can have the
// key: both parts become parts of a URL. Else the field selector of [Resource.WithSelector] excludes
// it. For a key without a name, or of the wrong scope, apierrors.IsNotFound does not hold.
func (r Resource[T]) CheckKey(key types.NamespacedName) error {
	if err := r.names().CheckKey(key); err != nil {
		return err
	}
	return r.checkSelected(key)
}

// checkGet returns an error if the resource has a selector, which readState does not apply.
func (r *Resource[T]) checkGet() error {
	if r.rest != nil && r.rest.Selector != nil {
		return fmt.Errorf("resource %q: %w", r.resource, errSelectorOfGet)
	}
	return nil
}

// readState reads an object with one GET. The version of an absence is not known. An error
// is that of the client: for a path that is not served it is the server's 404.
func (r *Resource[T]) readState(ctx context.Context, key types.NamespacedName) (state states.State[T], err error) {
	object, err := listwatch.Redacted(ctx, func(ctx context.Context) (T, error) {
		object, err := r.get(ctx, key)
		if err == nil {
			err = r.checkObject(object, key)
		}
		return object, err
	})
	switch {
	case r.isAbsence(err, key.Name):
		return states.State[T]{Synced: true}, nil
	case err != nil:
		return state, err
	}
	return states.State[T]{Object: object, Exists: true, Synced: true, ResourceVersion: object.GetResourceVersion()}, nil
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
