// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// event is one write. The history and all watchers share it, and it never changes.
type event struct {
	version  uint64
	key      types.NamespacedName
	object   object // the new state; for a deletion the last state, at the version of the deletion
	previous object // nil if the write created the object
	deleted  bool

	// bookmark is true for an event that has only a version, endsInitialEvents for the bookmark that ends the initial
	// events of a WatchList.
	bookmark, endsInitialEvents bool

	injected *watch.Event // what a test sends; no other field is set
}

// forSelection returns the event as a watcher of sel receives it, and false if the watcher does not receive it. An
// update that brings an object into the selection, or takes it out, is an addition or a deletion.
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
		// The event has the content that the watcher received last, at the version of this write.
		return watch.Event{Type: watch.Deleted, Object: withVersion(e.previous, e.version)}, true
	default:
		return watch.Event{}, false
	}
}

// history holds the newest writes of one resource, oldest first.
type history struct {
	events []*event
	floor  uint64 // events has every write above this version
	limit  int    // minimum number of events to keep
}

// add appends the event. It drops the older half when there are twice as many events as limit, so that dropping costs
// little per write.
func (h *history) add(e *event) {
	h.events = append(h.events, e)
	if len(h.events) < 2*h.limit {
		return
	}
	drop := len(h.events) - h.limit
	h.floor = h.events[drop-1].version
	h.events = slices.Clone(h.events[drop:])
}

// compact drops all events up to version, which is that of the newest write.
func (h *history) compact(version uint64) { h.events, h.floor = nil, version }

// since returns the events above version, and false if some of them have been dropped.
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

// undo returns current as it was at version, and false if the history does not reach back to it.
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
