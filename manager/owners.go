// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
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
	return cmp.Or(o.UID, types.UID(o.Namespace+"/"+o.Name))
}

// RegisterPod makes the references of a pod what its spec names now. It is
// idempotent, does not keep the pod and never waits for the network. A nil pod
// is logged and ignored.
func (m *Manager[T]) RegisterPod(pod *corev1.Pod) {
	if pod == nil {
		klog.Background().Error(nil, "RegisterPod of a nil pod, nothing is registered")
		return
	}
	var keys []types.NamespacedName
	if m.references != nil {
		m.references(pod, func(name string) {
			keys = append(keys, types.NamespacedName{Namespace: pod.Namespace, Name: name})
		})
	}
	m.set(podOwner(pod), keys)
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
	m.set(owner, slices.Clone(keys))
}

func podOwner(pod *corev1.Pod) Owner {
	return Owner{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// set takes ownership of keys.
//
// The store is called with mu held, so that what it counts follows the order of
// the calls made here for the same owner. That is safe: a store's AddReference
// and DeleteReference wait for nothing and do not call back.
func (m *Manager[T]) set(owner Owner, keys []types.NamespacedName) {
	slices.SortFunc(keys, compare)
	keys = slices.Compact(keys)
	id := owner.id()
	m.mu.Lock()
	defer m.mu.Unlock()
	held := m.owners[id].keys
	for _, key := range missing(keys, held) {
		m.store.AddReference(key.Namespace, key.Name, id)
	}
	for _, key := range missing(held, keys) {
		m.store.DeleteReference(key.Namespace, key.Name, id)
	}
	if len(keys) == 0 {
		delete(m.owners, id)
		return
	}
	m.owners[id] = holding{owner: owner, keys: keys}
}

// missing yields those of the keys that are not among others; both are in order.
func missing(keys, others []types.NamespacedName) []types.NamespacedName {
	if len(others) == 0 {
		return keys
	}
	var result []types.NamespacedName
	for _, key := range keys {
		if _, found := slices.BinarySearchFunc(others, key, compare); !found {
			result = append(result, key)
		}
	}
	return result
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
