// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
)

// sessionStore is the reflector's store as the engines write it during a session.
// Its methods are called from one goroutine, in the order of the stream, so that
// what is noted here is never ahead of the store.
type sessionStore struct{ *session }

var _ toolscache.ReflectorBookmarkStore = sessionStore{}

func (s sessionStore) Add(object any) error    { return s.event(object, s.r.store.Add(object)) }
func (s sessionStore) Update(object any) error { return s.event(object, s.r.store.Update(object)) }
func (s sessionStore) Delete(object any) error { return s.event(object, s.r.store.Delete(object)) }
func (s sessionStore) Resync() error           { return s.r.store.Resync() }

// event notes what the store made of an event. client-go logs the whole object
// when it gets an error here, so it gets none.
func (s sessionStore) event(object any, err error) error {
	if err != nil {
		s.end(storeError(err))
		return nil
	}
	if object, err := meta.Accessor(object); err == nil {
		s.r.noteContact(object.GetResourceVersion())
	}
	return nil
}

// Replace takes a complete read.
func (s sessionStore) Replace(items []any, version string) error {
	if guard, ok := s.r.store.(Guard); ok {
		if err := guard.CheckRead(items, version); err != nil {
			s.end(unfit(err, items...))
			return errOver
		}
	}
	if err := s.r.store.Replace(items, version); err != nil {
		s.end(storeError(err))
		return errOver
	}
	s.r.noteSynced(s.session, version)
	return nil
}

// Bookmark tells that all changes up to version have been seen.
func (s sessionStore) Bookmark(version string) error {
	if store, ok := s.r.store.(toolscache.ReflectorBookmarkStore); ok {
		_ = store.Bookmark(version)
	}
	s.r.noteContact(version)
	return nil
}

// storeError tells that the store failed, without its text: client-go's
// KeyError, for one, prints the object.
func storeError(err error) error {
	return fmt.Errorf("the store failed with a %T", err)
}

// unfit is the error when a store refuses objects.
func unfit(err error, objects ...any) error {
	for _, object := range objects {
		if header, err2 := meta.Accessor(object); err2 == nil && header.GetResourceVersion() == "" {
			return fmt.Errorf("%w: %w: the object has no resource version (client-go's fake clientset gives none)", ErrMalformed, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}
