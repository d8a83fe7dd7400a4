// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// event is one write. It is shared by the history and all watchers and never changes.
type event struct {
	version  uint64
	key      types.NamespacedName
	object   object // the state written; of a deletion the last state, at the version of the deletion
	previous object // nil if the write created the object
	deleted  bool

	// bookmark marks an event that carries nothing but a version; initialEnd the one that ends the
	// initial events of a WatchList.
	bookmark, initialEnd bool
}

// forSelection says how a watcher that selects some objects sees the event: an update that makes an object
// enter or leave the selection is an addition or a deletion to it. The second result is false if the event
// does not concern it.
func (e *event) forSelection(sel *selection) (watch.Event, bool) {
	now := !e.deleted && sel.matches(e.object)
	before := e.previous != nil && sel.matches(e.previous)
	switch {
	case now && before:
		return watch.Event{Type: watch.Modified, Object: e.object}, true
	case now:
		return watch.Event{Type: watch.Added, Object: e.object}, true
	case before && e.deleted:
		return watch.Event{Type: watch.Deleted, Object: e.object}, true
	case before:
		// The watcher last saw the previous content; it is told that at the version of this write.
		return watch.Event{Type: watch.Deleted, Object: withVersion(e.previous, e.version)}, true
	default:
		return watch.Event{}, false
	}
}

// history is the newest writes of one resource, oldest first.
type history struct {
	events []*event
	floor  uint64 // everything above this version is in events
	limit  int    // events to keep
}

// add appends the event and forgets the older half once twice the limit is held, so that forgetting
// costs next to nothing per write.
func (h *history) add(e *event) {
	h.events = append(h.events, e)
	if len(h.events) < 2*h.limit {
		return
	}
	drop := len(h.events) - h.limit
	h.floor = h.events[drop-1].version
	h.events = slices.Clone(h.events[drop:])
}

// forget drops everything up to and including version.
func (h *history) forget(version uint64) { h.events, h.floor = nil, version }

// since returns the events above version; false if some of them have been forgotten.
func (h *history) since(version uint64) ([]*event, bool) {
	if version < h.floor {
		return nil, false
	}
	first, _ := slices.BinarySearchFunc(h.events, version+1, func(e *event, v uint64) int {
		if e.version < v {
			return -1
		}
		return 1
	})
	return slices.Clone(h.events[first:]), true
}

// undo returns current as it was at version; false if that has been forgotten.
func (h *history) undo(current map[types.NamespacedName]object, version uint64) (map[types.NamespacedName]object, bool) {
	events, ok := h.since(version)
	if !ok {
		return nil, false
	}
	then := maps.Clone(current)
	for _, e := range slices.Backward(events) {
		if e.previous == nil {
			delete(then, e.key)
		} else {
			then[e.key] = e.previous
		}
	}
	return then, true
}
