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
	stream, err := s.beginStream()
	for err == nil {
		err = s.readChange(stream)
	}
	if stream != nil {
		_ = stream.Close() // there is nothing to be done about it
	}
	if errors.Is(err, errRegularEnd) {
		err = nil
	}
	s.end(err)
}

// errRegularEnd is what io.EOF of a stream becomes. A request whose connection
// was closed before the answer fails with an error that is io.EOF as well.
var errRegularEnd = errors.New("the stream has ended")

func regularEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return errRegularEnd
	}
	return err
}

// beginStream brings the store the state, and returns the stream of the changes
// after it. There may be a stream to close beside an error.
func (s *session) beginStream() (Stream, error) {
	if s.listMode {
		return s.beginWithList()
	}
	stream, err := s.open(s.watchListOptions())
	switch {
	case err == nil:
		return stream, s.readState(stream)
	case refusesWatchList(err):
		s.useLists(true)
		return s.beginWithList()
	}
	return nil, err
}

// beginWithList does without WatchList.
func (s *session) beginWithList() (Stream, error) {
	list, version, err := s.list()
	if err != nil {
		return nil, err
	}
	items, err := itemsOf(list)
	if err != nil {
		return nil, err
	}
	if err := (sessionStore{s}).Replace(items, version); err != nil {
		return nil, err // the session is over, and keeps its cause
	}
	return s.open(watchOptions(version))
}

// open opens a stream on a goroutine that lives no longer than that: a request
// makes a stack grow, and one that is grown stays so while it is in use.
func (s *session) open(options *metav1.ListOptions) (stream Stream, err error) {
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		if stream, err = s.r.source.Watch(s.ctx, *options); err == nil {
			s.noteOpened()
		}
	}()
	<-opened
	return stream, err
}

// readState reads the initial events up to the bookmark that ends them, and
// hands the state to the store. The server may mix in changes (KEP-3157).
func (s *session) readState(stream Stream) error {
	stopTimer := s.limitInitialEvents()
	defer stopTimer()
	state := map[types.NamespacedName]any{}
	for {
		event, err := stream.Next()
		if err != nil {
			return regularEnd(err)
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
func (s *session) readChange(stream Stream) error {
	event, err := stream.Next()
	if err != nil {
		return regularEnd(err)
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
	options := watchOptions(s.r.noteOpen())
	s.consistent = options.ResourceVersion == ""
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
	objects, err := meta.ExtractList(list)
	if err != nil { // whose text prints the list
		return nil, fmt.Errorf("%w: a %T that holds something else than objects", ErrMalformed, list)
	}
	items := make([]any, 0, len(objects))
	for _, object := range objects {
		items = append(items, object)
	}
	return items, nil
}
