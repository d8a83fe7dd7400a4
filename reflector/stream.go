// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// runStream is the engine of this package: it reads the stream in the goroutine
// of Run, and keeps no other. What blocks for hours in that goroutine is a Next
// and little above it: a stack is shrunk when less than a quarter of it is in use.
func (s *session) runStream() {
	var err error
	defer s.endStream(&err)
	defer recovered(&err)
	err = s.beginStream()
	for err == nil {
		err = s.readChange()
	}
}

// endStream ends a session whose stream has ended, by a panic perhaps.
func (s *session) endStream(err *error) {
	if s.stream != nil {
		closeStream(s.stream)
	}
	s.endBy(*err)
}

// endBy ends the session for a reason, which may be the stream's regular end.
func (s *session) endBy(err error) {
	if errors.Is(err, errRegularEnd) {
		err = nil
	}
	s.end(err)
}

// errRegularEnd is what io.EOF of a stream becomes. A request whose connection
// was closed before the answer fails with an error that is io.EOF as well.
var errRegularEnd = errors.New("the stream has ended")

func regularEnd(stream Stream, err error) error {
	if errors.Is(err, io.EOF) {
		return errRegularEnd
	}
	return sourceError(stream, err)
}

// beginStream brings the store the state, and opens the stream of the changes
// after it.
func (s *session) beginStream() error {
	if s.listMode {
		return s.beginWithList()
	}
	if err := s.open(s.watchListOptions()); err != nil {
		if s.triesList(err) {
			return s.beginWithList()
		}
		return err
	}
	if err := s.readState(); err != nil {
		return s.noteNoState(err)
	}
	return nil
}

// beginWithList does without WatchList.
func (s *session) beginWithList() error {
	list, version, err := s.list()
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	if err := (sessionStore{s}).Replace(items, version); err != nil {
		return err // the session is over, and keeps its cause
	}
	if err := s.watchRefusal(); err != nil {
		return err
	}
	err = s.open(watchOptions(version))
	s.noteWatch(err)
	return err
}

// open opens the stream on a goroutine that lives no longer than that: a request
// makes a stack grow, and one that is grown stays so while it is in use.
func (s *session) open(options *metav1.ListOptions) error {
	err := errNoStream // of a source that ends the goroutine
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		if s.stream, err = watchFrom(s.ctx, s.r.source, *options); err == nil {
			s.noteOpened()
		}
	}()
	<-opened
	return err
}

// readState reads the initial events up to the bookmark that ends them, and
// hands the state to the store. The server may mix in changes (KEP-3157).
func (s *session) readState() (err error) {
	defer recovered(&err)
	stopTimer := s.limitInitialEvents()
	defer stopTimer()
	state := map[types.NamespacedName]any{}
	for {
		event, err := s.stream.Next()
		if err != nil {
			return regularEnd(s.stream, err)
		}
		if err := s.check(event, true); err != nil {
			return err
		}
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return err
		}
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
		switch event.Type {
		case watch.Added, watch.Modified:
			state[key] = event.Object
		case watch.Deleted:
			delete(state, key)
		case watch.Bookmark:
			if !endsInitialEvents(event) {
				continue
			}
			items := make([]any, 0, len(state))
			for _, item := range state {
				items = append(items, item)
			}
			return sessionStore{s}.Replace(items, object.GetResourceVersion())
		}
	}
}

// readChange waits for an event and hands it to the store.
func (s *session) readChange() error {
	event, err := s.stream.Next()
	if err != nil {
		return regularEnd(s.stream, err)
	}
	if err := s.check(event, false); err != nil {
		return err
	}
	return s.apply(event)
}

// apply hands one event to the store. An error of the store ends the session,
// which the context of the stream tells the next Next.
func (s *session) apply(event watch.Event) error {
	switch store := (sessionStore{s}); event.Type {
	case watch.Added:
		return store.Add(event.Object)
	case watch.Modified:
		return store.Update(event.Object)
	case watch.Deleted:
		return store.Delete(event.Object)
	default: // a bookmark, by check
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return err
		}
		return store.Bookmark(object.GetResourceVersion())
	}
}

// watchListOptions ask for the state and then the changes, at the version that
// the reflector chooses (KEP-3157).
func (s *session) watchListOptions() *metav1.ListOptions {
	options := watchOptions(s.r.noteOpen(s))
	options.SendInitialEvents = ptr.To(true)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	return options
}

func watchOptions(version string) *metav1.ListOptions {
	return &metav1.ListOptions{
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr.To(int64(streamTimeout.Seconds() * (1 + rand.Float64()))),
	}
}

// itemsOf returns the objects in a list.
func itemsOf(list runtime.Object) ([]any, error) {
	// Items must not share the list's memory: one that is kept would keep all.
	objects, err := meta.ExtractListWithAlloc(list)
	if err != nil { // whose text prints the list
		return nil, fmt.Errorf("%w: a %T that holds something else than objects", ErrMalformed, list)
	}
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return items, nil
}
