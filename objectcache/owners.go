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
	count  int
	number uint64 // of the read that the owner needs
}

// add counts a reference. It reports whether the owner is a new one.
func (o *owners) add(uid types.UID) bool {
	refs, found := o.get(uid)
	if !found {
		o.added++
		o.reads++
		refs.number = o.reads
	}
	refs.count++
	switch {
	case found && o.isFirst(uid), !found && o.first.count == 0:
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
// its last reference, else 0.
func (o *owners) remove(uid types.UID) (gone uint64) {
	refs, found := o.get(uid)
	if !found {
		return 0
	}
	refs.count--
	if refs.count == 0 {
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
	return gone
}

func (o *owners) get(uid types.UID) (refs references, found bool) {
	if o.isFirst(uid) {
		return o.first, true
	}
	refs, found = o.more[uid]
	return refs, found
}

func (o *owners) isFirst(uid types.UID) bool { return o.first.count > 0 && o.uid == uid }

func (o *owners) empty() bool { return o.first.count == 0 && len(o.more) == 0 }

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
	if o.first.count > 0 {
		all = append(all, o.uid)
	}
	for uid := range o.more {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}
