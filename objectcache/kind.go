// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/kinds"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// kind is a resource as the stores see it.
type kind[T cache.Object] struct {
	*kinds.Kind[T]

	resource schema.GroupResource
}

// newKind returns an error if the resource is invalid or has no client.
func newKind[T cache.Object](r resource.Resource[T]) (kind[T], error) {
	k, err := r.Kind()
	if err != nil {
		return kind[T]{}, err
	}
	return kind[T]{k, k.Path.GroupResource()}, nil
}

// newKindOfGets is newKind for a store that reads with GETs.
func newKindOfGets[T cache.Object](r resource.Resource[T]) (kind[T], error) {
	k, err := newKind(r)
	if err != nil {
		return k, err
	}
	return k, k.CheckGet()
}

func (k *kind[T]) permissions(verbs ...string) Permissions {
	return Permissions{Resource: k.Path, ClusterScoped: k.ClusterScoped, Verbs: verbs}
}

// logRateLimit logs the rate limit of the client, if it has one.
func (k *kind[T]) logRateLimit(ctx context.Context) {
	if err := k.RateLimit(); err != nil {
		klog.FromContext(ctx).Info("The client limits its requests, objects sync slowly", "resource", k.resource, "reason", err)
	}
}

// read reads an object with one GET. apierrors.IsNotFound holds only if the server has no
// such object; if it does not serve the path, the error is a [resource.NotServedError].
// answered is called when the request is over: the function of WithTransform may block.
func (k *kind[T]) read(ctx context.Context, key types.NamespacedName, answered func()) (T, error) {
	state, err := k.Read(ctx, key)
	answered()
	if err == nil && state.Exists {
		state.Object, err = k.Transform(state.Object)
	}
	if err != nil {
		return state.Object, k.Explain(notServed(err))
	}
	return k.result(key, state)
}

func notServed(err error) error { return resource.NotServed(err) }
