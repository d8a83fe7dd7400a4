// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sessionWatch hands the events of a stream to client-go's Reflector. Errors,
// and what does not belong to the selection, end the session on this side:
// client-go would print them, objects and all.
type sessionWatch struct {
	session *session
	stream  Stream
	events  chan watch.Event

	once sync.Once
	done chan struct{}
}

// ResultChan implements watch.Interface.
func (w *sessionWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *sessionWatch) Stop() {
	w.once.Do(func() {
		close(w.done)
		_ = w.stream.Close()
	})
}

// pump hands on events until the stream ends or is stopped. initial says that
// the stream begins with the state.
func (w *sessionWatch) pump(initial bool) {
	defer close(w.events)
	defer w.Stop()
	stopTimer := func() {}
	if initial {
		stopTimer = w.limitInitialEvents()
	}
	defer stopTimer()
	for {
		event, err := w.stream.Next()
		if err == nil {
			err = w.check(event, initial)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			w.session.end(err)
			return
		}
		if initial && endsInitialEvents(event) {
			initial = false
			stopTimer()
		}
		select {
		case w.events <- event:
		case <-w.done:
			return
		}
	}
}

// limitInitialEvents ends the session if the initial events do not end in time.
// The timer's goroutine counts as a call of the session.
//
// The runtime may keep a stopped timer, and so all that its function reaches,
// until long after. What it reaches is therefore let go of when it is stopped,
// lest an object stays in memory that nobody references any more.
func (w *sessionWatch) limitInitialEvents() (stop func()) {
	var limited atomic.Pointer[session]
	limited.Store(w.session)
	w.session.calls.Add(1)
	timer := time.AfterFunc(initialEventsTimeout, func() {
		if session := limited.Swap(nil); session != nil {
			defer session.calls.Done()
			session.useLists()
			session.end(errNoBookmark)
		}
	})
	return func() {
		timer.Stop()
		if session := limited.Swap(nil); session != nil {
			session.calls.Done()
		}
	}
}

// check tells whether client-go may see an event.
func (w *sessionWatch) check(event watch.Event, initial bool) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		return w.session.r.check(event.Object)
	case watch.Bookmark:
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return fmt.Errorf("%w: a bookmark that holds a %T", ErrMalformed, event.Object)
		}
		version := object.GetResourceVersion()
		if initial && endsInitialEvents(event) {
			return w.session.r.noteRead(version, w.session.consistent)
		}
		return wellFormed(version)
	case watch.Error:
		if status, ok := event.Object.(*metav1.Status); ok {
			return apierrors.FromObject(status)
		}
		return fmt.Errorf("%w: an error event that holds a %T", ErrMalformed, event.Object)
	default:
		return fmt.Errorf("%w: an event of type %q", ErrMalformed, event.Type)
	}
}

// endsInitialEvents knows the bookmark that ends the initial events (KEP-3157).
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}
