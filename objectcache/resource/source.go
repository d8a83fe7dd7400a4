// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"reflect"

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

// sourceFrom returns a function that returns the source of one object. client
// returns a client for a namespace. clientset is what the clients come from: a fake
// clientset declares that it does not support WatchList, and its clients do not.
func sourceFrom[C listWatcher[L], L runtime.Object](client func(namespace string) C, clientset any) func(types.NamespacedName) listwatch.Source {
	return func(key types.NamespacedName) listwatch.Source {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
		return listwatch.FromListerWatcher(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				c, err := namespaced(client, key.Namespace)
				if err != nil {
					return nil, err
				}
				options.FieldSelector = selector
				return c.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				c, err := namespaced(client, key.Namespace)
				if err != nil {
					return nil, err
				}
				options.FieldSelector = selector
				return c.Watch(ctx, options)
			},
		}, clientset))
	}
}

// namespaced returns the client of a namespace. It calls foreign code: call it for each
// request, with no lock held.
func namespaced[C any](client func(namespace string) C, namespace string) (C, error) {
	c := client(namespace)
	if isNil(c) {
		return c, listwatch.Loggable(fmt.Errorf("the resource has no client for namespace %q: its function returned nil", namespace))
	}
	return c, nil
}

// isNil reports whether an interface is nil or holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}
