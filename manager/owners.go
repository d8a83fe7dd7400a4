// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

var (
	errNilPod        = errors.New("the pod is nil")
	errNoReferences  = errors.New("the manager was made without a VisitPodFunc: pass manager.VisitPodSecretNames or the like to New")
	errNotIdentified = errors.New("the owner has neither UID nor name")
)

// RegisterPod makes the references of a pod what its spec names now. It is
// idempotent, does not keep the pod and never waits for the network. A pod that
// is nil or has neither UID nor name is logged and ignored, and so, once for
// each manager, is any pod if the manager has no [VisitPodFunc].
func (m *Manager[T]) RegisterPod(pod *corev1.Pod) {
	if pod == nil {
		m.refuse(errNilPod, Owner{})
		return
	}
	if m.visitPod == nil {
		m.unreferenced.Do(func() { m.refuse(errNoReferences, podOwner(pod)) })
		return
	}
	wanted := collect()
	defer wanted.release()
	wanted.namespace = pod.Namespace
	m.visitPod(pod, wanted.visit)
	m.set(podOwner(pod), wanted.keys, true)
}

// UnregisterPod takes back the references of a pod; which those are is known
// from its registration. It is idempotent and never waits for the network. A pod
// that is nil or has neither UID nor name is logged and ignored.
func (m *Manager[T]) UnregisterPod(pod *corev1.Pod) {
	if pod == nil {
		m.refuse(errNilPod, Owner{})
		return
	}
	m.set(podOwner(pod), nil, true)
}

// SetReferences makes the references of an owner the given keys, and only
// those; without keys the owner is forgotten. How an owner is identified is said
// at [Owner]; one that has neither UID nor name is logged and ignored. It is
// idempotent and never waits for the network. Keys that no object can have are
// logged and not referenced; Get says what is wrong with them.
func (m *Manager[T]) SetReferences(owner Owner, keys ...types.NamespacedName) {
	wanted := collect()
	defer wanted.release()
	wanted.keys = append(wanted.keys, keys...)
	m.set(owner, wanted.keys, false)
}

// refuse logs a call of which nothing came.
func (m *Manager[T]) refuse(err error, owner Owner) {
	m.logger().Error(err, "References unchanged", "kind", owner.Kind, "owner", klog.KRef(owner.Namespace, owner.Name))
}

// set makes the references of an owner the given keys. It puts keys in order, and
// does not keep the slice.
func (m *Manager[T]) set(given Owner, keys []types.NamespacedName, pod bool) {
	if !given.identified() {
		m.refuse(errNotIdentified, given)
		return
	}
	slices.SortFunc(keys, compare)
	if known := m.replace(given, slices.Compact(keys), pod); !known && len(keys) == 0 {
		m.logger().V(4).Info("Nobody knows the owner to be forgotten", "kind", given.Kind, "owner", klog.KRef(given.Namespace, given.Name), "uid", given.UID)
	}
}

// replace is set for keys in order, each once. It reports whether the owner was
// known before.
//
// The store is called with mu held, so that what it counts follows the order of
// the calls made here for the same owner, and so that known finds every owner of
// whom the store tells. That is safe: a store's AddReference and DeleteReference
// wait for nothing and do not call back. The store has one lock itself, so a lock
// for each owner here would gain next to nothing.
func (m *Manager[T]) replace(given Owner, keys []types.NamespacedName, pod bool) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owner := m.owners.resolve(given)
	id := owner.id()
	others := m.owners.superseded(given, owner, len(keys) > 0, pod)
	held, known := m.owners.byID[id]
	known = known || len(others) > 0
	if len(others) == 0 && held.owner == owner && slices.Equal(held.keys, keys) {
		return known // as nearly always: a node agent registers a pod at each of its syncs
	}
	for key := range missing(keys, held.keys) {
		m.store.AddReference(key.Namespace, key.Name, id)
	}
	m.dropLocked(id, missing(held.keys, keys))
	for _, other := range others {
		m.dropLocked(other, slices.Values(m.owners.byID[other].keys))
		m.owners.remove(other)
	}
	if len(keys) == 0 {
		m.owners.remove(id)
		return known
	}
	m.owners.put(id, owner, slices.Clone(keys))
	return known
}

// dropLocked takes back references of an owner.
func (m *Manager[T]) dropLocked(id types.UID, keys iter.Seq[types.NamespacedName]) {
	for key := range keys {
		m.store.DeleteReference(key.Namespace, key.Name, id)
	}
}
