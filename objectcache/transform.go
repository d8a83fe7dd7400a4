// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// transformFor returns Options.Transform of a reflector of an entry; nil without a function of WithTransform.
func (s *WatchStore[T]) transformFor(e *entry[T]) toolscache.TransformFunc {
	if !s.resource.Transforms() {
		return nil
	}
	return func(object any) (any, error) { return s.transformAny(e, object) }
}

// transformAny is transform. A store refuses an object of another type.
func (s *WatchStore[T]) transformAny(e *entry[T], object any) (any, error) {
	if typed, ok := object.(T); ok {
		return s.transform(e, typed)
	}
	return object, nil
}

// transform calls the function of WithTransform with the object of an entry, and notes that. Of two calls at a time it
// notes the first.
func (s *WatchStore[T]) transform(e *entry[T], object T) (T, error) {
	if e.transforming.CompareAndSwap(0, max(1, int64(s.now()))) {
		defer e.transforming.Store(0)
	}
	return s.resource.Transform(object)
}

// transformingSince returns when the function was called that works with the object; zero if there is none.
func (s *WatchStore[T]) transformingSince(e *entry[T]) time.Time {
	if since := e.transforming.Load(); since != 0 {
		return s.base.Add(time.Duration(since))
	}
	return time.Time{}
}
