// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"

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
		closeStream(w.stream)
	})
}

// pump hands on events until the stream ends or is stopped. initial says that
// the stream begins with the state.
func (w *sessionWatch) pump(initial bool) {
	defer close(w.events)
	defer w.Stop()
	stopTimer := func() {}
	if initial {
		stopTimer = w.session.limitInitialEvents()
	}
	defer stopTimer()
	for {
		event, err := w.next(initial)
		if err != nil {
			if initial {
				err = w.session.noteNoState(err)
			}
			w.session.endBy(err)
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

// next returns the next event, if it is what it should be.
func (w *sessionWatch) next(initial bool) (event watch.Event, err error) {
	defer recovered(&err)
	event, err = w.stream.Next()
	if err != nil {
		return event, regularEnd(w.stream, err)
	}
	return event, w.session.check(event, initial)
}
