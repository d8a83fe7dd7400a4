// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/listwatch"
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

// CheckKey returns an error that wraps [ErrInvalidName] if no object can have the key. Both
// parts of a key become parts of a URL.
func (r *Reader[T]) CheckKey(key types.NamespacedName) error { return r.resource.validateKey(key) }

// Source returns the source of one object.
func (r *Reader[T]) Source(key types.NamespacedName) listwatch.Source {
	return r.resource.sourceOf(key)
}

// NamespaceSource returns the source of the wanted objects of a namespace: see
// [listwatch.FromRESTNamespace]. Call it only if HasNamespaceSource.
func (r *Reader[T]) NamespaceSource(namespace string, wanted func(name string) bool) listwatch.Source {
	return r.resource.accepted(listwatch.FromRESTNamespace(r.resource.rest, namespace, wanted))
}

// HasNamespaceSource reports whether the client can read a namespace without decoding what
// is not wanted.
func (r *Reader[T]) HasNamespaceSource() bool { return r.resource.rest != nil }

// Read reads an object with one GET, which the server answers with the newest state, and
// returns the state, also that of an absent object. The version of an absence is not known.
// An error is that of the client: for a path that is not served it is the server's 404. It
// holds no object data.
func (r *Reader[T]) Read(ctx context.Context, key types.NamespacedName) (cache.State[T], error) {
	return r.resource.readState(ctx, key)
}

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
