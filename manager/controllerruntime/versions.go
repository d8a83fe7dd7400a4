// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/resourceversion"

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
	passed    bool   // one of these does not have the object, and is not behind the version in the set
	gone      bool   // another representation by reference, with handlers, does not have the object
	held      string // the version by name; empty if the object is absent
	isHeld    bool   // the state by name is known, also if it is that the object is absent
}

// versions is what Gets and handlers have been shown of an object. Its lease has them.
type versions struct {
	shown string // the newest version of the set that a Get has returned
	gone  string // the version of the newest event by which the object was deleted, or has left the set
	// left counts such events without a version, which come when the stock cache has listed again. checked is the
	// value of left at the beginning of the last Get by name.
	left, checked uint64
	// lost are versions that the server does not have, because it was restored from a backup.
	lost [maxLost]string
}

// choose decides where a Get with these demands has its state from: from the set, or by name, with the
// demands that it returns.
func (k versions) choose(s sides, demands objectcache.GetOptions) (fromSet bool, byName objectcache.GetOptions) {
	set, newest := s.set, newer(newer(s.elsewhere, k.shown), k.gone)
	switch {
	case (set == "" || s.passed) && k.left > k.checked:
		return false, objectcache.GetOptions{Live: true}
	case set == "", s.passed, demands.Live, isOlder(set, demands.NotOlderThan), isOlder(set, newest):
	case s.isHeld && (s.held == "" || isOlder(set, s.held)):
		// The state by name is newer: the object has changed, was deleted, or was created since.
	default:
		return true, demands
	}
	if s.gone && !s.isHeld { // the first state by name may be older
		demands.Live = true
	}
	newest = newer(newest, set)
	inMemory := s.isHeld && s.held != "" && !isOlder(s.held, newest)
	if !demands.Live && !inMemory && isOlder(demands.NotOlderThan, newest) {
		demands.NotOlderThan = newest
	}
	return false, demands
}

// maxLost is the number of sides beside the state by name: the set, two other representations by reference, and the
// metadata in the stock cache.
const maxLost = 4

// unlessLost returns a version, or nothing if the server does not have it.
func (k *versions) unlessLost(version string) string {
	if slices.Contains(k.lost[:], version) {
		return ""
	}
	return version
}

// show notes that a Get has returned a version of the set.
func (k *versions) show(version string) { k.shown = newer(version, k.shown) }

// lose notes that the server does not have a version that another side has.
func (k *versions) lose(version string) {
	copy(k.lost[1:], k.lost[:])
	k.shown, k.gone, k.lost[0] = "", "", version
}

// leave notes an event by which the object was deleted, or has left the set. The version is that of the event, if it
// is known and has an order.
func (k *versions) leave(version string) {
	if !hasOrder(version) {
		k.left++
		return
	}
	k.gone = newer(k.gone, version)
}

// check notes a Get by name that has succeeded. It began when the versions were those before, and so it has read all
// that left counted then.
func (k *versions) check(before versions) { k.checked = max(k.checked, before.left) }

func newer(a, b string) string {
	if isOlder(a, b) {
		return b
	}
	return a
}

// isOlder reports whether a version is older than another one, as none is older than any. Versions without an
// order are not.
func isOlder(version, than string) bool {
	if version == "" {
		return hasOrder(than)
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// hasOrder reports whether a version can be compared with others.
func hasOrder(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}
