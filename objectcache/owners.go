// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// owners counts references per owner. It numbers the reads that are needed: one for
// each new owner, and one for each Get that asks for a read of its own. Most objects
// have one owner, which needs no map. The zero value has none.
type owners struct {
	added uint64    // owners so far, including those that are gone
	reads uint64    // reads that owners and Gets have asked for so far
	uid   types.UID // of the first owner, if its count is not 0
	first references
	more  map[types.UID]references // of all other owners
}

// references are those of one owner.
type references struct {
	number       uint64 // of the read that the owner needs
	watched      int32  // references that are not read-once
	readOnce     int32
	lastReadOnce bool // the reference that was added last is read-once
}

func (r *references) empty() bool { return r.watched == 0 && r.readOnce == 0 }

func (r *references) add(readOnce bool) {
	if r.lastReadOnce = readOnce; readOnce {
		r.readOnce++
		return
	}
	r.watched++
}

// remove takes back one reference, and reports whether that was a read-once one. Of
// two kinds it takes the one that was not added last: an owner changes the kind by
// adding a reference and then deleting one.
func (r *references) remove() (readOnce bool) {
	if readOnce = r.watched == 0 || r.readOnce > 0 && !r.lastReadOnce; readOnce {
		r.readOnce--
	} else {
		r.watched--
	}
	return readOnce
}

// add counts a reference. It reports whether the owner is a new one.
func (o *owners) add(uid types.UID, readOnce bool) bool {
	refs, found := o.get(uid)
	if !found {
		o.added++
		o.reads++
		refs.number = o.reads
	}
	refs.add(readOnce)
	switch {
	case found && o.isFirst(uid), !found && o.first.empty():
		o.uid, o.first = uid, refs
	default:
		if o.more == nil {
			o.more = map[types.UID]references{}
		}
		o.more[uid] = refs
	}
	return !found
}

// remove takes back a reference. It ignores an owner without one: a negative count
// would keep the object for ever. It returns the number of the owner if that was
// its last reference, else 0, and whether the reference was one that is not read-once.
func (o *owners) remove(uid types.UID) (gone uint64, watched bool) {
	refs, found := o.get(uid)
	if !found {
		return 0, false
	}
	watched = !refs.remove()
	if refs.empty() {
		gone = refs.number
	}
	switch first := o.isFirst(uid); {
	case first && gone > 0:
		o.uid, o.first = "", references{}
	case first:
		o.first = refs
	case gone > 0:
		delete(o.more, uid)
	default:
		o.more[uid] = refs
	}
	return gone, watched
}

func (o *owners) get(uid types.UID) (refs references, found bool) {
	if o.isFirst(uid) {
		return o.first, true
	}
	refs, found = o.more[uid]
	return refs, found
}

func (o *owners) isFirst(uid types.UID) bool { return !o.first.empty() && o.uid == uid }

func (o *owners) empty() bool { return o.first.empty() && len(o.more) == 0 }

// newest returns the highest number of a read for an owner that is not gone.
func (o *owners) newest() uint64 {
	newest := o.first.number
	for _, refs := range o.more {
		newest = max(newest, refs.number)
	}
	return newest
}

// list returns the UIDs of the owners, sorted.
func (o *owners) list() []types.UID {
	all := make([]types.UID, 0, 1+len(o.more))
	if !o.first.empty() {
		all = append(all, o.uid)
	}
	for uid := range o.more {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}
