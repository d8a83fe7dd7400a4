// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// owners counts references per owner. Most objects have one owner, which costs
// no map. The zero value has none.
type owners struct {
	uid   types.UID // the first owner, if count is not 0
	count int
	more  map[types.UID]int // all others
}

// add counts a reference and tells whether the owner is a new one.
func (o *owners) add(uid types.UID) bool {
	switch {
	case o.count > 0 && o.uid == uid:
		o.count++
		return false
	case o.count == 0 && o.more[uid] == 0:
		o.uid, o.count = uid, 1
		return true
	}
	if o.more == nil {
		o.more = map[types.UID]int{}
	}
	o.more[uid]++
	return o.more[uid] == 1
}

// remove takes back a reference. An owner without one is left as it is: a count
// below zero would pin the object for ever.
func (o *owners) remove(uid types.UID) {
	if o.count > 0 && o.uid == uid {
		if o.count--; o.count == 0 {
			o.uid = ""
		}
		return
	}
	switch o.more[uid] {
	case 0:
	case 1:
		delete(o.more, uid)
	default:
		o.more[uid]--
	}
}

func (o *owners) none() bool { return o.count == 0 && len(o.more) == 0 }

// list returns the owners in order.
func (o *owners) list() []types.UID {
	all := make([]types.UID, 0, 1+len(o.more))
	if o.count > 0 {
		all = append(all, o.uid)
	}
	for uid := range o.more {
		all = append(all, uid)
	}
	slices.Sort(all)
	return all
}
