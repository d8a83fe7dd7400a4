// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector/listwatch"
)

// listWatcher lists and watches one resource in one namespace.
type listWatcher[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// sourceOver makes sources, each of one object, of clients for a namespace. whole
// is what they come from: a fake clientset says that it does not support
// WatchList, its parts do not.
func sourceOver[C listWatcher[L], L runtime.Object](client func(namespace string) C, whole any) func(types.NamespacedName) listwatch.Source {
	return func(key types.NamespacedName) listwatch.Source {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
		// Called per request, not here: a client of somebody else's is not called
		// with a lock held.
		in := func() (C, error) {
			c := client(key.Namespace)
			if isNil(c) {
				return c, fmt.Errorf("%w: the resource has no client for namespace %q: its function returned nil", listwatch.ErrLoggable, key.Namespace)
			}
			return c, nil
		}
		return listwatch.FromListerWatcher(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				c, err := in()
				if err != nil {
					return nil, err
				}
				options.FieldSelector = selector
				return c.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				c, err := in()
				if err != nil {
					return nil, err
				}
				options.FieldSelector = selector
				return c.Watch(ctx, options)
			},
		}, whole))
	}
}
