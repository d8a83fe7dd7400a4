// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watcher is the queue between the store and one stream. Writers append and never wait; a queue that grows
// beyond its limit ends the stream, as kube-apiserver terminates watchers that do not keep up.
type watcher struct {
	request   *Request
	selection *selection
	after     uint64        // nothing at or below this version is delivered
	limit     int           // events that may wait
	wake      chan struct{} // holds one token while there may be something to take

	mu    sync.Mutex
	queue []*event
	ended bool
}

// add queues an event, or ends the watcher if too many wait.
func (w *watcher) add(e *event) {
	// A watch opened at a version of the future stays silent until the counter has passed it. Bookmarks
	// may repeat the version the stream has begun at.
	if e.version < w.after || e.version == w.after && !e.bookmark {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	if len(w.queue) >= w.limit {
		w.endLocked()
		return
	}
	w.queue = append(w.queue, e)
	w.notifyLocked()
}

// end makes the stream finish; what still waits is dropped.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked()
}

func (w *watcher) endLocked() {
	w.ended, w.queue = true, nil
	w.notifyLocked()
}

// notifyLocked leaves a token for the reader; one token is enough, because a reader takes everything.
func (w *watcher) notifyLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, and false once the watcher has ended.
func (w *watcher) take() ([]*event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	return events, !w.ended
}

// start is where a watch begins.
type start struct {
	request *Request
	version uint64 // zero: the newest
	initial bool   // the present state comes first, as additions
	endMark bool   // and is followed by a bookmark that says it is complete
}

// watch registers a watcher and returns it with the events that come before everything it will be told.
// Both happen under one lock, so nothing is missed between them. It returns the errors of the watch cache:
// Expired for a forgotten version, Timeout with cause ResourceVersionTooLarge for a state not yet reached.
func (s *store) watch(t *table, sel *selection, from start, limit int) (*watcher, []*event, error) {
	w := &watcher{
		request: from.request, selection: sel, after: from.version, limit: limit, wake: make(chan struct{}, 1),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var events []*event
	switch {
	case from.initial && from.version > s.version:
		return nil, nil, tooLarge(from.version, s.version)
	case from.initial:
		events, w.after = s.stateLocked(t, sel, from.endMark), s.version
	case from.version == 0:
		w.after = s.version
	default:
		var ok bool
		if events, ok = t.history.since(from.version); !ok {
			return nil, nil, apierrors.NewResourceExpired(
				fmt.Sprintf("too old resource version: %d (%d)", from.version, t.history.floor))
		}
	}
	scope := sel.scope()
	if t.watchers[scope] == nil {
		t.watchers[scope] = map[*watcher]struct{}{}
	}
	t.watchers[scope][w] = struct{}{}
	return w, events, nil
}

// stateLocked is the present state as additions, and the bookmark that ends it.
func (s *store) stateLocked(t *table, sel *selection, endMark bool) []*event {
	objects := selectFrom(t.objects, sel)
	sortByKey(objects)
	events := make([]*event, 0, len(objects)+1)
	for _, obj := range objects {
		events = append(events, &event{key: keyOf(obj), object: obj})
	}
	if endMark {
		events = append(events, &event{version: s.version, bookmark: true, initialEnd: true})
	}
	return events
}

// forget removes a watcher; a stream calls it when it ends.
func (s *store) forget(t *table, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope := w.selection.scope()
	delete(t.watchers[scope], w)
	if len(t.watchers[scope]) == 0 {
		delete(t.watchers, scope)
	}
}

// bookmark queues a bookmark at the present version. It goes through the queue under the store's lock:
// everything up to its version is in front of it.
func (s *store) bookmark(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.add(&event{version: s.version, bookmark: true})
}
