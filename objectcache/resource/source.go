// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Source reads objects for [FromSource]. Several goroutines call its methods.
//
// The options of List and Watch select one object, with a field selector: pass them on as
// they are. If a Source has the method IsWatchListSemanticsUnSupported and that returns
// true, as a fake clientset does, Watch is not asked for initial events.
//
// client-go's fake clientsets ignore the field selector, and give objects no versions. A
// Source over one serves a TTLStore and a DirectStore, and no WatchStore: use test/apiserver
// in tests of that.
type Source[T cache.Object] interface {
	List(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
	// Get reads an object for stores that do not watch.
	Get(ctx context.Context, namespace, name string) (T, error)
}

// FromSource is any resource whose objects come from a source of your own, for example over
// a client that has no REST client. A goroutine reads each stream.
//
// client-go's dynamic and metadata clients decode their streams themselves, and limit no
// event: a server, or a proxy, that sends an event without an end makes the program read
// until memory is full. Streams of [Typed] and [FromConfig], which read objects without a Go
// type too, are limited to 4 MiB for an event.
func FromSource[T cache.Object](source Source[T], resource schema.GroupVersionResource) Resource[T] {
	r := withoutClient[T](resource)
	if isNil(source) {
		r.clientError = errNoSource
		return r
	}
	r.get = func(ctx context.Context, key types.NamespacedName) (T, error) {
		return source.Get(ctx, key.Namespace, key.Name)
	}
	r.source = func(key types.NamespacedName) listwatch.Source {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
		return listwatch.FromListerWatcher(toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = selector
				return source.List(ctx, key.Namespace, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = selector
				return source.Watch(ctx, key.Namespace, options)
			},
		}, source))
	}
	return r
}

var errNoSource = errors.New("the source is nil: pass one to FromSource")

// isNil reports whether an interface is nil or holds a nil pointer.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

// Loggable marks an error that a [Source], or the store of a reflector, returns: its text holds no object
// data, so errors and logs show it.
func Loggable(err error) error { return redact.Loggable(err) }

// Redacted calls get, which reads an object with any client, for a program that reads objects beside its stores. It
// hides the text of an error that may quote an object, as a store does, and client-go's log lines that hold a body. A
// panic becomes an error.
func Redacted[T runtime.Object](ctx context.Context, get func(context.Context) (T, error)) (T, error) {
	return listwatch.Redacted(ctx, get)
}
