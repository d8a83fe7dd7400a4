// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watcher is the queue of events between the store and one stream. Writers append and never block. A watcher whose
// queue is full is ended, as kube-apiserver terminates watchers that do not keep up.
type watcher struct {
	cache     *watchCache
	request   *Request
	selection *selection
	after     uint64        // only events above this version are delivered
	limit     int           // maximum length of queue
	wake      chan struct{} // has one token if take may return something new

	mu    sync.Mutex
	queue []*event
	ended bool
}

// add appends an event to the queue if it is above the version at which the watch began.
func (w *watcher) add(e *event) {
	// A watch at a future version is silent until the counter has passed that version. A bookmark may repeat the
	// version at which the watch began.
	if e.version < w.after || e.version == w.after && !e.bookmark {
		return
	}
	w.inject(e)
}

// inject appends an event of any version to the queue, or ends the watcher if the queue is full.
func (w *watcher) inject(e *event) {
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

// end ends the stream and drops the queued events.
func (w *watcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked()
}

func (w *watcher) endLocked() {
	w.ended, w.queue = true, nil
	w.notifyLocked()
}

// notifyLocked wakes the reader. One token is enough, because take returns the whole queue.
func (w *watcher) notifyLocked() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// take empties the queue and returns its events, and false once the watcher has ended.
func (w *watcher) take() ([]*event, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.queue
	w.queue = nil
	return events, !w.ended
}

// start says where a watch begins.
type start struct {
	request     *Request
	version     uint64 // zero: the newest
	initial     bool   // begin with the current state, as additions
	endBookmark bool   // end the state with a bookmark
}

// watch registers a watcher, and returns it with the events that precede those in its queue. Both happen under one
// lock, so that no event is missed. It returns the errors of the watch cache: Expired for a compacted version, and
// Timeout with cause ResourceVersionTooLarge for a state at a future version.
func (c *watchCache) watch(t *table, sel *selection, from start, limit int) (*watcher, []*event, error) {
	w := &watcher{
		cache: c, request: from.request, selection: sel, after: from.version, limit: limit, wake: make(chan struct{}, 1),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	cached := c.cacheVersionLocked()
	var events []*event
	switch {
	case from.initial && from.version > cached:
		return nil, nil, tooLarge(from.version, cached)
	case from.initial:
		events, w.after = c.stateLocked(t, sel, from.endBookmark), cached
	case from.version == 0:
		w.after = cached
	default:
		var ok bool
		if events, ok = t.history.since(from.version); !ok {
			return nil, nil, apierrors.NewResourceExpired(
				fmt.Sprintf("too old resource version: %d (%d)", from.version, t.history.floor))
		}
		events = slices.DeleteFunc(events, func(e *event) bool { return e.version > cached }) // they follow
	}
	scope := sel.scope()
	if t.watchers[scope] == nil {
		t.watchers[scope] = map[*watcher]struct{}{}
	}
	t.watchers[scope][w] = struct{}{}
	return w, events, nil
}

// stateLocked returns the state of the watch cache as additions, with a bookmark at the end if endBookmark is true.
func (c *watchCache) stateLocked(t *table, sel *selection, endBookmark bool) []*event {
	objects := selectFrom(c.cacheLocked(t), sel)
	sortByKey(objects)
	events := make([]*event, 0, len(objects)+1)
	for _, obj := range objects {
		events = append(events, &event{key: keyOf(obj), object: obj})
	}
	if endBookmark {
		events = append(events, &event{version: c.cacheVersionLocked(), bookmark: true, endsInitialEvents: true})
	}
	return events
}

// removeWatcher unregisters a watcher. Its stream calls it at the end.
func (s *store) removeWatcher(t *table, w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scope := w.selection.scope()
	delete(t.watchers[scope], w)
	if len(t.watchers[scope]) == 0 {
		delete(t.watchers, scope)
	}
}

// bookmark queues a bookmark at the version of the watch cache. It holds the store's lock, so that all events up to
// that version precede the bookmark in the queue.
func (c *watchCache) bookmark(w *watcher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.add(&event{version: c.cacheVersionLocked(), bookmark: true})
}
