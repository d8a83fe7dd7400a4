// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// sharedSource asks whether the namespace may be read before it is.
type sharedSource[T cache.Object] struct {
	listwatch.Source

	stream  *sharedStream[T]
	allowed bool // the reflector makes one call at a time before the state is stored
}

var errNotAllowed = errors.New("WatchOptions.Shared.Allowed returned false")

// List implements listwatch.Source.
func (s *sharedSource[T]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	return s.Source.List(ctx, options)
}

// Watch implements listwatch.Source.
func (s *sharedSource[T]) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	if err := s.ask(ctx); err != nil {
		return nil, err
	}
	return s.Source.Watch(ctx, options)
}

// ask precedes each request. An error is a refusal, or what Allowed returned.
func (s *sharedSource[T]) ask(ctx context.Context) error {
	store, namespace := s.stream.store, s.stream.namespace.name
	if allowed := store.options.Shared.Allowed; allowed != nil && !s.allowed {
		ok, err := allowed(ctx, namespace)
		if err != nil {
			return listwatch.Loggable(fmt.Errorf("WatchOptions.Shared.Allowed failed for namespace %q: %w", namespace, err))
		}
		if !ok {
			return apierrors.NewForbidden(store.resource.resource, "", errNotAllowed)
		}
		s.allowed = true
	}
	store.mu.Lock()
	first := !s.stream.asked
	s.stream.asked = true
	store.mu.Unlock()
	if first {
		s.stream.logger().V(2).Info("Starting to watch the namespace")
	}
	return nil
}
