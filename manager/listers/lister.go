// SPDX-License-Identifier: Apache-2.0

package listers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

const defaultTimeout = time.Second

// Source has the objects of a lister. A manager.Manager and an [objectcache.Store] are
// sources.
type Source[T cache.Object] interface {
	// Get returns a referenced object. It may wait until ctx ends.
	Get(ctx context.Context, namespace, name string) (T, error)
	// TryGet is Get without waiting. It returns objectcache.ErrNotSynced where Get
	// would wait.
	TryGet(namespace, name string) (T, error)
	// Statuses yields the status of every referenced object, in no order.
	Statuses() iter.Seq[objectcache.Status]
}

// Options configures a lister. The zero value is valid.
type Options struct {
	// Timeout bounds how long Get waits for the first sync of an object: a lister has
	// no context. Default: 1 s, for which kubelet's managers wait. With a negative value, Get
	// waits until the object is synced or refused.
	Timeout time.Duration
}

// lister lists and gets the objects of a source.
type lister[T cache.Object] struct {
	source   Source[T]
	resource schema.GroupResource
	timeout  time.Duration
}

func newLister[T cache.Object](source Source[T], resource schema.GroupResource, options Options) (lister[T], error) {
	if value := reflect.ValueOf(source); source == nil || value.Kind() == reflect.Pointer && value.IsNil() {
		return lister[T]{}, fmt.Errorf("new lister of %s: the source is nil: pass a manager or a store", resource)
	}
	timeout := cmp.Or(options.Timeout, defaultTimeout)
	if timeout < 0 {
		timeout = math.MaxInt64
	}
	return lister[T]{source: source, resource: resource, timeout: timeout}, nil
}

// list returns the objects in memory that match, of all namespaces if namespace is
// empty, as client-go does.
func (l lister[T]) list(namespace string, selector labels.Selector) (objects []T, err error) {
	if selector == nil {
		return nil, fmt.Errorf("list %s: the selector is nil: pass labels.Everything()", l.resource)
	}
	for status := range l.source.Statuses() {
		key := status.Key
		// TryGet would open a stream for an object that is not in memory.
		if !status.Exists || namespace != "" && key.Namespace != namespace {
			continue
		}
		object, err := l.source.TryGet(key.Namespace, key.Name)
		if err != nil {
			continue // changed since the status was read, or too old
		}
		if selector.Matches(labels.Set(object.GetLabels())) {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// get returns NotFound also for an empty name, as client-go's listers do: a reference that names no object is common.
func (l lister[T]) get(namespace, name string) (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
	defer cancel()
	object, err := l.source.Get(ctx, namespace, name)
	if errors.Is(err, objectcache.ErrInvalidName) && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", apierrors.NewNotFound(l.resource, name), err)
	}
	return object, err
}

// namespaceLister lists and gets the objects of a namespace. It implements
// client-go's SecretNamespaceLister and ConfigMapNamespaceLister.
type namespaceLister[T cache.Object] struct {
	lister[T]

	namespace string
}

func (l namespaceLister[T]) List(selector labels.Selector) ([]T, error) {
	return l.list(l.namespace, selector)
}

func (l namespaceLister[T]) Get(name string) (T, error) { return l.get(l.namespace, name) }
