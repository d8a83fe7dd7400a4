// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Owner references objects: a pod, or any other object that a program serves.
//
// It is identified by its UID, or by its kind, namespace and name; either is
// enough. An owner that is declared with all of them can be removed by the UID only
// or by the name only. A reconciler needs the latter: it has only the name once the
// owner is deleted.
//
//	m.SetReferences(Owner{Kind: "Ingress", Namespace: ns, Name: name, UID: uid}, keys...)
//	m.SetReferences(Owner{Kind: "Ingress", Namespace: ns, Name: name})
//
// These are the rules:
//
//   - The same UID is the same owner. With a UID, an empty Kind keeps its old
//     value, and an empty Name keeps the old Namespace and Name. Another name
//     renames the owner.
//   - Without a UID, the Kind, Namespace and Name identify the owner. An empty Kind
//     matches only owners without Kind. If several owners match, the call applies
//     to all: with keys they are merged into one owner with these keys, without
//     keys all are removed.
//   - An owner that was declared without a UID takes the first UID that is declared
//     for its Kind, Namespace and Name.
//   - [Manager.SetReferences] with keys replaces an owner of the same Kind, Namespace
//     and Name that has another UID: that one was deleted and created again. An
//     owner without Kind is never replaced. [Manager.RegisterPod] never replaces: a
//     pod may still run on its node when its successor is registered. Registered
//     pods have Kind "Pod".
//   - Removing by UID removes only the owner with that UID.
//
// Objects that an owner and its successor both reference stay in the cache.
type Owner struct {
	// Kind, Namespace and Name are those of the object. The namespace is empty for a
	// cluster-scoped owner. Owners of two kinds are two owners. If two API groups have
	// the same kind, add the group: "Gateway.networking.istio.io". Write it alike in each
	// call: with and without a group are two owners. An empty Kind is a kind of its own.
	// To compare kinds, call IsKind.
	Kind, Namespace, Name string
	// UID is the owner's UID, empty if it has none or the caller does not have it.
	UID types.UID
}

// podKind is the Kind of owners that were registered as pods.
const podKind = "Pod"

func podOwner(pod *corev1.Pod) Owner {
	return Owner{Kind: podKind, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// IsKind reports whether the owner is of a kind, which may have its group as in Owner.Kind. If either
// has no group, their groups do not count: "Gateway" is "Gateway.gateway.networking.k8s.io", and that is
// not "Gateway.networking.istio.io".
func (o Owner) IsKind(kind string) bool {
	is, want := schema.ParseGroupKind(o.Kind), schema.ParseGroupKind(kind)
	return is.Kind == want.Kind && (is.Group == want.Group || is.Group == "" || want.Group == "")
}

// hasIdentity reports whether the owner differs from others.
func (o Owner) hasIdentity() bool { return o.UID != "" || o.Name != "" }

// ID returns what objectcache.Status.Owners has for the owner: its UID. Without one it is
// "kind/namespace/name", and "namespace/name" if Kind is empty.
func (o Owner) ID() types.UID {
	switch {
	case o.UID != "":
		return o.UID
	case o.Kind != "":
		return types.UID(o.Kind + "/" + o.Namespace + "/" + o.Name)
	}
	return types.UID(o.Namespace + "/" + o.Name)
}

// describe returns the owner for a message.
func (o Owner) describe() string {
	if o.Name == "" {
		return fmt.Sprintf("owner %q", o.UID)
	}
	return fmt.Sprintf("%s %q", cmp.Or(o.Kind, "owner"), klog.KRef(o.Namespace, o.Name))
}

// withoutUID returns the owner with its kind, namespace and name only.
func (o Owner) withoutUID() Owner {
	o.UID = ""
	return o
}

// withDefaults sets empty fields to those of the registered owner with the same UID.
func (o Owner) withDefaults(registered Owner) Owner {
	o.Kind = cmp.Or(o.Kind, registered.Kind)
	if o.Name == "" {
		o.Namespace, o.Name = registered.Namespace, registered.Name
	}
	return o
}
