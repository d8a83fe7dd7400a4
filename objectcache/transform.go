// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	toolscache "k8s.io/client-go/tools/cache"
)

// transformFor returns Options.Transform of a reflector of an entry; nil without a function of WithTransform.
func (s *WatchStore[T]) transformFor(e *entry[T]) toolscache.TransformFunc {
	if !s.resource.Transforms {
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

// transforming is the calls of the function of WithTransform with an object: of its stream, and a GET
// beside that.
type transforming struct {
	calls int           // under way
	since time.Duration // the first of those that have overlapped, see WatchStore.nowAged; 0 if none is under way
}

// transform calls the function of WithTransform with the object of an entry, and notes that.
func (s *WatchStore[T]) transform(e *entry[T], object T) (T, error) {
	s.transforms.Lock()
	if e.transforming.calls++; e.transforming.calls == 1 {
		e.transforming.since = max(1, time.Duration(s.nowAged()))
	}
	s.transforms.Unlock()
	defer func() {
		s.transforms.Lock()
		defer s.transforms.Unlock()
		if e.transforming.calls--; e.transforming.calls == 0 {
			e.transforming.since = 0
		}
	}()
	return s.resource.Transform(object)
}

// transformingSince returns when the function was called that works with the object; zero if there is none.
func (s *WatchStore[T]) transformingSince(e *entry[T]) time.Time {
	if !s.resource.Transforms {
		return time.Time{}
	}
	s.transforms.Lock()
	defer s.transforms.Unlock()
	return s.timeOf(e.transforming.since)
}
