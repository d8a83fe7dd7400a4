// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// Store is what a reflector writes, from one goroutine at a time: see New of package reflector of the root.
// Replace gets an empty version if the state is from a [Getter].
type Store = toolscache.ReflectorStore

// What a [Store] may also be. Errors must not hold object data.
type (
	// Checker refuses objects that do not belong in the store.
	Checker interface {
		Check(object runtime.Object) error
	}
	// ReadChecker refuses complete reads that the store must not be replaced with.
	ReadChecker interface {
		CheckRead(items []any, version string) error
	}
	// EpochStarter is told when the server was rolled back. The versions of the server may be
	// lower after that, and may repeat.
	EpochStarter interface{ NewEpoch() }
	// Comparer reports whether a complete read brings nothing new, which finds streams that have
	// missed a change. The items may be *metav1.PartialObjectMetadata in place of the objects:
	// see [listwatch.Resumable].
	Comparer interface{ Holds(items []any) bool }
	// Namer names its reflector, for each log line, so that none keeps its name.
	Namer interface{ ReflectorName() string }
	// Getter reads its object with a GET. If the server has no such object, it returns nil and no error: an
	// error that is a 404 says that the path is not served. The context ends after 15 s, unless the GET follows
	// another request of the attempt. Such a read proves no restore of etcd.
	Getter interface {
		GetObject(ctx context.Context) (runtime.Object, error)
	}
	// Observer is called when Options.OnChange would be, unless that is set. So a program with many
	// reflectors needs no function for each.
	Observer interface{ ReflectorChanged() }
)

// BookmarkTaker is a [Store] that takes the bookmarks of parked streams on the goroutine that reads
// the connection: neither a worker nor a decoder is needed. With a ResyncPeriod or an ExpectedType
// its method is not called.
type BookmarkTaker interface {
	// TakeBookmark is called in place of Bookmark, UpdateResourceVersion and OnChange. Status and
	// ResourceVersion of the reflector have the bookmark by then. If it returns false, the
	// others are called soon. It never runs beside another method of the store that the
	// reflector calls for the stream. All streams of the connection wait until it returns, so it
	// must not block, and it must not call the reflector. It must not take a lock that is held
	// while a method of the reflector is called, and must not end its goroutine, which ends the
	// connection. If it panics, the stream ends as malformed.
	TakeBookmark(version string) (taken bool)
}

// safeStore returns the errors of a store without object data.
type safeStore struct {
	Store

	resyncer *resyncer // nil: Resync is never called
}

// check returns an error if an object does not belong in the store.
func (s safeStore) check(object runtime.Object) error {
	if store, ok := s.Store.(Checker); ok {
		if err := store.Check(object); err != nil {
			return refusalOf(err, object)
		}
	}
	return nil
}

// newEpoch notifies the store that the server was rolled back.
func (s safeStore) newEpoch() {
	if store, ok := s.Store.(EpochStarter); ok {
		store.NewEpoch()
	}
}

// holds reports whether the store holds the same objects as a complete read. known is
// false if the store cannot be asked.
func (s safeStore) holds(items []any) (same, known bool) {
	store, ok := s.Store.(Comparer)
	return ok && store.Holds(items), ok
}

// confirm notifies the store that it holds the state of a version.
func (s safeStore) confirm(version string) {
	s.resyncer.beginWrite()
	defer s.resyncer.endWrite()
	if store, ok := s.Store.(toolscache.ReflectorBookmarkStore); ok {
		_ = store.Bookmark(version)
	}
	s.updateVersion(version)
}

// updateVersion notifies the store that it has got everything up to a version.
func (s safeStore) updateVersion(version string) {
	if store, ok := s.Store.(toolscache.ResourceVersionUpdater); ok {
		store.UpdateResourceVersion(version)
	}
}

// checkRead returns an error if the store refuses a complete read.
func (s safeStore) checkRead(items []any, version string) error {
	if store, ok := s.Store.(ReadChecker); ok {
		if err := store.CheckRead(items, version); err != nil {
			return refusalOf(err, items...)
		}
	}
	return nil
}

// replace stores a complete read.
func (s safeStore) replace(items []any, version string) error {
	if err := s.Replace(items, version); err != nil {
		return failureOf(err)
	}
	if version != "" {
		s.updateVersion(version)
	}
	return nil
}

// resync calls the store's Resync. The store may panic.
func (s safeStore) resync() (err error) {
	defer redact.Panic(&err)
	s.resyncer.beginWrite()
	defer s.resyncer.endWrite()
	return failureOf(s.Resync())
}

// apply stores an event that [checkEvent] has passed. It returns the version up to
// which the store is complete.
func (s safeStore) apply(event watch.Event) (version string, err error) {
	object, err := meta.Accessor(event.Object)
	if err != nil {
		return "", err
	}
	s.resyncer.beginWrite()
	defer s.resyncer.endWrite()
	switch event.Type {
	case watch.Added:
		err = s.Add(event.Object)
	case watch.Modified:
		err = s.Update(event.Object)
	case watch.Deleted:
		err = s.Delete(event.Object)
	case watch.Bookmark:
		if store, ok := s.Store.(toolscache.ReflectorBookmarkStore); ok {
			_ = store.Bookmark(object.GetResourceVersion())
		}
	}
	version = object.GetResourceVersion()
	if err == nil {
		s.updateVersion(version)
	}
	return version, failureOf(err)
}

// failureOf returns the error of a store without its text, unless that is marked: client-go's
// KeyError prints the object.
func failureOf(err error) error {
	if err == nil {
		return nil
	}
	shown := redact.Marked(err)
	if shown == nil {
		return fmt.Errorf("%w with a %T", failure.ErrStore, err)
	}
	if !errors.Is(shown, failure.ErrStore) {
		shown = redact.Errorf("%w: %w", failure.ErrStore, shown)
	}
	return programError{redact.Error(shown)}
}

// programError is what errors.Is finds in an error, and nothing of what errors.As does: a status
// in it is not the server's.
type programError struct{ error }

func (e programError) Is(target error) bool { return errors.Is(e.error, target) }

// refusalOf returns the error of a store that refuses objects.
func refusalOf(err error, objects ...any) error {
	if !errors.Is(err, cache.ErrMalformed) {
		err = fmt.Errorf("%w: %w", cache.ErrMalformed, err)
	}
	for _, object := range objects {
		if header, err2 := meta.Accessor(object); err2 == nil && header.GetResourceVersion() == "" {
			return fmt.Errorf("%w: the object has no resource version (client-go's fake clientset gives none)", err)
		}
	}
	return err
}
