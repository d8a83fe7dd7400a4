// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// registration is an owner and the keys that it references.
type registration struct {
	owner  Owner
	keys   []types.NamespacedName         // sorted and unique; their references count
	denied map[types.NamespacedName]error // by the policy, with its reasons
	older  types.UID                      // the ID of the next older owner of the same name
}

// has reports whether the reference of the owner to an object counts.
func (r registration) has(key types.NamespacedName) bool {
	_, found := slices.BinarySearchFunc(r.keys, key, compareKeys)
	return found
}

// same reports whether the references of the owner are known to be those of another registration.
func (r registration) same(other registration) bool {
	return r.owner == other.owner && slices.Equal(r.keys, other.keys) && len(r.denied)+len(other.denied) == 0
}

// registrations holds the registrations of all owners, by both of their identities.
type registrations struct {
	byID   map[types.UID]registration
	newest map[Owner]types.UID // the newest owner of each name; the key has no UID
}

func newRegistrations() registrations {
	return registrations{byID: map[types.UID]registration{}, newest: map[Owner]types.UID{}}
}

// put replaces the registration of an ID.
func (r registrations) put(id types.UID, now registration) {
	name, before := now.owner.withoutUID(), r.byID[id]
	now.older = before.older
	if before.owner.withoutUID() != name {
		r.unlink(id)
		now.older = ""
		if name.Name != "" {
			now.older, r.newest[name] = r.newest[name], id
		}
	}
	r.byID[id] = now
}

func (r registrations) remove(id types.UID) {
	r.unlink(id)
	delete(r.byID, id)
}

// unlink removes an owner from the list of those of its name.
func (r registrations) unlink(id types.UID) {
	removed := r.byID[id]
	name := removed.owner.withoutUID()
	switch newest := r.newest[name]; {
	case newest != id:
		for at := newest; at != ""; at = r.byID[at].older {
			if next := r.byID[at]; next.older == id {
				next.older = removed.older
				r.byID[at] = next
			}
		}
	case removed.older == "":
		delete(r.newest, name)
	default:
		r.newest[name] = removed.older
	}
}

// resolve returns the owner that a call applies to, with the fields that are
// registered. An owner without a UID is the newest of its name.
func (r registrations) resolve(owner Owner) Owner {
	if owner.UID != "" {
		return owner.withDefaults(r.byID[owner.UID].owner)
	}
	if id := r.newest[owner]; id != "" {
		return r.byID[id].owner
	}
	return owner
}

// matching returns the IDs of the owners that a call without keys removes.
func (r registrations) matching(given Owner) []types.UID {
	owner := r.resolve(given)
	return append(r.superseded(given, owner, false, false), owner.ID())
}

// superseded returns the IDs of the other owners that a call removes. given is the
// owner as passed, and owner as resolved. declared is set if the call has keys.
func (r registrations) superseded(given, owner Owner, declared, pod bool) (others []types.UID) {
	all := given.UID == "" || declared && !pod && owner.Kind != ""
	for id := r.newest[owner.withoutUID()]; id != ""; id = r.byID[id].older {
		if id != owner.ID() && (all || r.byID[id].owner.UID == "") {
			others = append(others, id)
		}
	}
	return others
}
