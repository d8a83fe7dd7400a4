// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	refcache "github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// An object may be known from several sides: by name, from the store of a view; from the set, which the stock
// cache holds (CacheOptions.Selected); and from other representations with handlers, such as its metadata
// (CacheOptions.StockMetadata). Each has a stream of its own, and may lag behind. No Get returns a state from
// before one that a Get has returned, or of which a handler has had an event, in any representation.

// sides is what all sides have of an object when a Get begins.
type sides struct {
	set       string // the version in the set; empty if it is not there
	elsewhere string // the newest version of other representations with handlers; empty if none has the object
	missing   bool   // one of these does not have the object, and would if it had synced in time
	held      string // the version by name; empty if the object is absent
	isHeld    bool   // the state by name is known, also if it is that the object is absent
}

// versions is what Gets and handlers have been shown of an object. Its lease has them.
type versions struct {
	shown string // the newest version of the set that a Get has returned
	lost  string // one that the server does not have, because it was restored from a backup
	left  uint64 // how often handlers have known that the object was deleted, or has left the set
	// checked is one more than left was when the last Get by name began; 0 if there was none.
	checked uint64
}

// choose decides where a Get with these demands has its state from: from the set, or by name, with the
// demands that it returns.
func (k versions) choose(s sides, demands objectcache.GetOptions) (fromSet bool, byName objectcache.GetOptions) {
	set, newest := k.unlessLost(s.set), newer(k.unlessLost(s.elsewhere), k.shown)
	switch gone := s.missing || set == "" && k.left > 0; {
	case gone && k.checked <= k.left:
		// It was deleted, or has lost its label, or the other side does not have it yet.
		return false, objectcache.GetOptions{Live: true}
	case set == "", demands.Live, isOlder(set, demands.NotOlderThan), isOlder(set, newest):
	case s.isHeld && (s.held == "" || isOlder(set, s.held)):
		// The state by name is newer: the object has changed, was deleted, or was created since.
	default:
		return true, demands
	}
	newest = newer(newest, set)
	inMemory := s.isHeld && s.held != "" && !isOlder(s.held, newest)
	if !demands.Live && !inMemory && isOlder(demands.NotOlderThan, newest) {
		demands.NotOlderThan = newest
	}
	return false, demands
}

// unlessLost returns a version, or nothing if the server does not have it.
func (k versions) unlessLost(version string) string {
	if version == k.lost {
		return ""
	}
	return version
}

// show notes that a Get has returned a version of the set.
func (k *versions) show(version string) { k.shown = newer(version, k.shown) }

// lose notes that the server does not have a version that another side has.
func (k *versions) lose(version string) { k.shown, k.lost = "", version }

// leave notes that handlers are told that the object was deleted, or has left the set.
func (k *versions) leave() { k.left++ }

// check notes that a Get by name has succeeded, which began when the versions were those before. It was a live
// one, unless the state by name could not be older than what handlers had been told.
func (k *versions) check(before versions) { k.checked = max(k.checked, before.left+1) }

func newer(a, b string) string {
	if isOlder(a, b) {
		return b
	}
	return a
}

// isOlder reports whether a version is older than another one. Versions without an order are not.
func isOlder(version, than string) bool {
	order, err := refcache.CompareVersions(version, than)
	return err == nil && order < 0
}
