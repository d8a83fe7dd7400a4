// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// owners counts references per owner. Most objects have one owner, which costs
// no map. The zero value has none.
type owners struct {
	arrived uint64    // how many owners have come so far, whether or not they are still here
	uid     types.UID // the first owner, if its count is not 0
	first   holding
	more    map[types.UID]holding // all others
}

// holding is what one owner has.
type holding struct {
	count  int    // of references
	number uint64 // how many owners had arrived when this one had
}

// add counts a reference and reports whether the owner is a new one.
func (o *owners) add(uid types.UID) bool {
	held, known := o.of(uid)
	if !known {
		o.arrived++
		held.number = o.arrived
	}
	held.count++
	switch {
	case known && o.first.count > 0 && o.uid == uid, o.first.count == 0 && !known:
		o.uid, o.first = uid, held
	default:
		if o.more == nil {
			o.more = map[types.UID]holding{}
		}
		o.more[uid] = held
	}
	return !known
}

// remove takes back a reference. An owner without one is left as it is: a count
// below zero would pin the object for ever. It returns the number of the owner
// if that was its last reference, and 0 otherwise.
func (o *owners) remove(uid types.UID) (gone uint64) {
	held, known := o.of(uid)
	if !known {
		return 0
	}
	held.count--
	if held.count == 0 {
		gone = held.number
	}
	switch first := o.first.count > 0 && o.uid == uid; {
	case first && gone > 0:
		o.uid, o.first = "", holding{}
	case first:
		o.first = held
	case gone > 0:
		delete(o.more, uid)
	default:
		o.more[uid] = held
	}
	return gone
}

func (o *owners) of(uid types.UID) (held holding, known bool) {
	if o.first.count > 0 && o.uid == uid {
		return o.first, true
	}
	held, known = o.more[uid]
	return held, known
}

func (o *owners) none() bool { return o.first.count == 0 && len(o.more) == 0 }

// newest returns the number of the owner that came last of those that are here.
func (o *owners) newest() uint64 {
	newest := o.first.number
	for _, held := range o.more {
		newest = max(newest, held.number)
	}
	return newest
}

// list returns the owners in order.
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
