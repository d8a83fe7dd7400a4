// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Owner is who references objects: a pod, or whatever a program serves.
//
// It is identified by its UID, or by its kind, namespace and name; either is
// enough. Whoever declares an owner with all of them lets it be forgotten by a
// caller that has only the one or only the other, as a reconciler has only the
// name once the owner is gone:
//
//	m.SetReferences(Owner{Kind: "Ingress", Namespace: ns, Name: name, UID: uid}, keys...)
//	m.SetReferences(Owner{Kind: "Ingress", Namespace: ns, Name: name})
//
// These are the rules:
//
//   - The same UID is the same owner. With a UID, an empty Kind keeps its old
//     value, and an empty Name keeps the old Namespace and Name. Another name
//     renames the owner.
//   - Without a UID, the Kind, Namespace and Name decide. An empty Kind matches
//     only owners without Kind. If several owners match, the call applies to all:
//     with keys they become one owner, without keys all are forgotten.
//   - An owner that was declared without a UID takes the first UID that is declared
//     for its Kind, Namespace and Name.
//   - [Manager.SetReferences] with keys replaces an owner of the same Kind, Namespace
//     and Name that has another UID: it was deleted and created again. It does not
//     if the Kind is empty. [Manager.RegisterPod] does not either: a pod may still
//     run on its node when its successor comes. Registered pods have Kind "Pod".
//   - Forgetting by UID forgets only that UID.
//
// Objects that both predecessor and successor name are kept all the while.
type Owner struct {
	// Kind, Namespace and Name say which; the namespace is empty for a
	// cluster-scoped owner. Two kinds of one name are two owners; where two API
	// groups have the same kind, write the group too: "Gateway.networking.istio.io".
	// An empty Kind is a kind of its own.
	Kind, Namespace, Name string
	// UID is the owner's UID, empty if it has none or the caller does not know it.
	UID types.UID
}

// podKind is the Kind of owners that were registered as pods.
const podKind = "Pod"

func podOwner(pod *corev1.Pod) Owner {
	return Owner{Kind: podKind, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// identified reports whether the owner can be told from others.
func (o Owner) identified() bool { return o.UID != "" || o.Name != "" }

// id is what a store knows the owner by.
func (o Owner) id() types.UID {
	switch {
	case o.UID != "":
		return o.UID
	case o.Kind != "":
		return types.UID(o.Kind + "/" + o.Namespace + "/" + o.Name)
	}
	return types.UID(o.Namespace + "/" + o.Name)
}

// withoutUID is the owner as somebody knows it who has only its name.
func (o Owner) withoutUID() Owner {
	o.UID = ""
	return o
}

// completed fills in what is known of an owner with the same UID.
func (o Owner) completed(known Owner) Owner {
	o.Kind = cmp.Or(o.Kind, known.Kind)
	if o.Name == "" {
		o.Namespace, o.Name = known.Namespace, known.Name
	}
	return o
}

// holding is what one owner references now.
type holding struct {
	owner Owner
	keys  []types.NamespacedName // in order, each once
	older types.UID              // the id of the next older owner of the same name
}

// holdings are those of all owners, by both of their identities.
type holdings struct {
	byID   map[types.UID]holding
	newest map[Owner]types.UID // of each name, as an owner without UID
}

func newHoldings() holdings {
	return holdings{byID: map[types.UID]holding{}, newest: map[Owner]types.UID{}}
}

// put replaces what is held under id.
func (h holdings) put(id types.UID, owner Owner, keys []types.NamespacedName) {
	name, before := owner.withoutUID(), h.byID[id]
	now := holding{owner: owner, keys: keys, older: before.older}
	if before.owner.withoutUID() != name {
		h.unname(id)
		now.older = ""
		if name.Name != "" {
			now.older, h.newest[name] = h.newest[name], id
		}
	}
	h.byID[id] = now
}

func (h holdings) remove(id types.UID) {
	h.unname(id)
	delete(h.byID, id)
}

// unname takes an owner out of those of its name.
func (h holdings) unname(id types.UID) {
	gone := h.byID[id]
	name := gone.owner.withoutUID()
	switch newest := h.newest[name]; {
	case newest != id:
		for at := newest; at != ""; at = h.byID[at].older {
			if next := h.byID[at]; next.older == id {
				next.older = gone.older
				h.byID[at] = next
			}
		}
	case gone.older == "":
		delete(h.newest, name)
	default:
		h.newest[name] = gone.older
	}
}

// resolve returns the owner that a caller means, as it is known: one without a
// UID is the newest of its name.
func (h holdings) resolve(owner Owner) Owner {
	if owner.UID != "" {
		return owner.completed(h.byID[owner.UID].owner)
	}
	if id := h.newest[owner]; id != "" {
		return h.byID[id].owner
	}
	return owner
}

// superseded returns which others a caller means who declares an owner, or
// forgets it: as given, and as resolved.
func (h holdings) superseded(given, owner Owner, declared, pod bool) (others []types.UID) {
	all := given.UID == "" || declared && !pod && owner.Kind != ""
	for id := h.newest[owner.withoutUID()]; id != ""; id = h.byID[id].older {
		if id != owner.id() && (all || h.byID[id].owner.UID == "") {
			others = append(others, id)
		}
	}
	return others
}
