// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Owners counts references per owner. It numbers the reads that are needed: one for
// each new owner, and one for each Get that asks for a read of its own. Most objects
// have one owner, which needs no map. The zero value has none.
type Owners struct {
	Added uint64    // owners so far, including those that are gone
	Reads uint64    // reads that owners and Gets have asked for so far
	uid   types.UID // of the first owner, if its count is not 0
	first references
	more  *moreOwners // nil if there are no other owners
}

// moreOwners are the owners of an object that has several.
type moreOwners struct {
	references map[types.UID]references // of all owners but the first
	// order has the reads of all owners, the newest last. It keeps those of owners that are
	// gone until they are the last, or are too many.
	order []ownerRead
	// sorted are the UIDs of all owners when list was last called. It is shared and is never
	// changed. changed has the owners that came or went since.
	sorted, changed []types.UID
}

// ownerRead is the read that an owner needs.
type ownerRead struct {
	number uint64
	uid    types.UID
}

// references are those of one owner.
type references struct {
	number uint64 // of the read that the owner needs
	count  int32
}

func (r *references) empty() bool { return r.count == 0 }

// Add counts a reference. It reports whether the owner is a new one.
func (o *Owners) Add(uid types.UID) bool {
	refs, found := o.get(uid)
	if !found {
		o.Added++
		o.Reads++
		refs.number = o.Reads
	}
	refs.count++
	switch {
	case found && o.isFirst(uid), !found && o.first.empty():
		o.uid, o.first = uid, refs
	default:
		if o.more == nil {
			first := ownerRead{o.first.number, o.uid}
			o.more = &moreOwners{references: map[types.UID]references{}, order: []ownerRead{first}}
		}
		o.more.references[uid] = refs
	}
	if o.more != nil && !found {
		o.more.order = append(o.more.order, ownerRead{refs.number, uid})
		o.more.change(uid)
	}
	return !found
}

// Remove takes back a reference. It ignores an owner without one: a negative count
// would keep the object for ever. It returns the number of the owner if that was
// its last reference, else 0.
func (o *Owners) Remove(uid types.UID) (gone uint64) {
	refs, found := o.get(uid)
	if !found {
		return 0
	}
	if refs.count--; refs.empty() {
		gone = refs.number
	}
	switch first := o.isFirst(uid); {
	case first && gone > 0:
		o.uid, o.first = "", references{}
	case first:
		o.first = refs
	case gone > 0:
		delete(o.more.references, uid)
	default:
		o.more.references[uid] = refs
	}
	if o.more != nil && gone > 0 {
		o.more.change(uid)
		o.forget()
	}
	return gone
}

// forget drops what is kept of owners that are gone, if it is too much.
func (o *Owners) forget() {
	switch owners := len(o.more.references) + 1; {
	case owners == 1:
		o.more = nil
	case len(o.more.order) > 2*owners:
		o.more.order = slices.DeleteFunc(o.more.order, o.isGone)
	}
}

// isGone reports whether the owner that needed a read is gone. It may have come again.
func (o *Owners) isGone(read ownerRead) bool {
	refs, found := o.get(read.uid)
	return !found || refs.number != read.number
}

// Has reports whether an owner has a reference.
func (o *Owners) Has(uid types.UID) bool {
	_, found := o.get(uid)
	return found
}

func (o *Owners) get(uid types.UID) (refs references, found bool) {
	if o.isFirst(uid) {
		return o.first, true
	}
	if o.more != nil {
		refs, found = o.more.references[uid]
	}
	return refs, found
}

func (o *Owners) isFirst(uid types.UID) bool { return !o.first.empty() && o.uid == uid }

// Empty reports whether there is no owner.
func (o *Owners) Empty() bool { return o.first.empty() && o.more == nil }

// Newest returns the highest number of a read for an owner that is not gone.
func (o *Owners) Newest() uint64 {
	if o.more == nil {
		return o.first.number
	}
	order := o.more.order
	for o.isGone(order[len(order)-1]) {
		order = order[:len(order)-1]
	}
	o.more.order = order
	return order[len(order)-1].number
}

// List returns the UIDs of the owners, sorted. The result is shared.
func (o *Owners) List() []types.UID {
	switch {
	case o.more != nil:
		return o.listMore()
	case o.first.empty():
		return nil
	}
	return []types.UID{o.uid}
}

// maxInserted is how many owners listMore inserts or deletes one by one. It sorts all if there
// are more.
const maxInserted = 16

// listMore is List for an object with several owners. What it costs does not depend on how
// often it is called.
func (o *Owners) listMore() []types.UID {
	m := o.more
	switch {
	case m.sorted == nil || len(m.changed) > maxInserted:
		m.sorted = make([]types.UID, 0, len(m.references)+1)
		if !o.first.empty() {
			m.sorted = append(m.sorted, o.uid)
		}
		for uid := range m.references {
			m.sorted = append(m.sorted, uid)
		}
		slices.Sort(m.sorted)
	case len(m.changed) > 0:
		sorted := append(make([]types.UID, 0, len(m.sorted)+len(m.changed)), m.sorted...)
		for _, uid := range m.changed {
			i, before := slices.BinarySearch(sorted, uid)
			switch _, now := o.get(uid); {
			case now && !before:
				sorted = slices.Insert(sorted, i, uid)
			case before && !now:
				sorted = slices.Delete(sorted, i, i+1)
			}
		}
		m.sorted = sorted
	}
	m.changed = nil
	return slices.Clip(m.sorted)
}

// change notes that an owner came or went.
func (m *moreOwners) change(uid types.UID) {
	if m.sorted != nil && len(m.changed) <= maxInserted {
		m.changed = append(m.changed, uid)
	}
}
