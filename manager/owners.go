// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Owner is who references objects: a pod, or whatever a program serves.
type Owner struct {
	// Namespace and Name say which; they are for people to read.
	Namespace, Name string
	// UID is what an owner is known by. An owner without one is known by its
	// namespace and name.
	UID types.UID
}

func (o Owner) id() types.UID {
	if o.UID != "" {
		return o.UID
	}
	return types.UID(o.Namespace + "/" + o.Name)
}

// RegisterPod makes the references of a pod what its spec names now. It is
// idempotent, does not keep the pod and never waits for the network. A nil pod
// is logged and ignored.
func (m *Manager[T]) RegisterPod(pod *corev1.Pod) {
	if pod == nil {
		klog.Background().Error(nil, "RegisterPod of a nil pod, nothing is registered")
		return
	}
	wanted := collect()
	defer wanted.release()
	if m.references != nil {
		wanted.namespace = pod.Namespace
		m.references(pod, wanted.visit)
	}
	m.set(podOwner(pod), wanted.keys)
}

// UnregisterPod takes back the references of a pod; which those are is known
// from its registration. It is idempotent and never waits for the network. A nil
// pod is logged and ignored.
func (m *Manager[T]) UnregisterPod(pod *corev1.Pod) {
	if pod == nil {
		klog.Background().Error(nil, "UnregisterPod of a nil pod, nothing is unregistered")
		return
	}
	m.set(podOwner(pod), nil)
}

// SetReferences makes the references of an owner the given keys, and only
// those; without keys the owner is forgotten. It is idempotent and never waits
// for the network. Keys that no object can have are logged and not referenced;
// Get says what is wrong with them.
func (m *Manager[T]) SetReferences(owner Owner, keys ...types.NamespacedName) {
	wanted := collect()
	defer wanted.release()
	wanted.keys = append(wanted.keys, keys...)
	m.set(owner, wanted.keys)
}

func podOwner(pod *corev1.Pod) Owner {
	return Owner{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// set makes the references of an owner the given keys. It puts keys in order, and
// does not keep the slice.
//
// The store is called with mu held, so that what it counts follows the order of
// the calls made here for the same owner, and so that known finds every owner of
// whom the store tells. That is safe: a store's AddReference and DeleteReference
// wait for nothing and do not call back. The store has one lock itself, so a lock
// for each owner here would gain next to nothing.
func (m *Manager[T]) set(owner Owner, keys []types.NamespacedName) {
	slices.SortFunc(keys, compare)
	keys = slices.Compact(keys)
	id := owner.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.owners[id]
	if held.owner == owner && slices.Equal(held.keys, keys) {
		return // as nearly always: a node agent registers a pod at each of its syncs
	}
	for key := range missing(keys, held.keys) {
		m.store.AddReference(key.Namespace, key.Name, id)
	}
	for key := range missing(held.keys, keys) {
		m.store.DeleteReference(key.Namespace, key.Name, id)
	}
	if len(keys) == 0 {
		delete(m.owners, id)
		return
	}
	m.owners[id] = holding{owner: owner, keys: slices.Clone(keys)}
}
