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
	errNilPod     = errors.New("the pod is nil")
	errNoVisitPod = errors.New("the manager was made without a VisitPodFunc: pass manager.VisitPodSecretNames or the like to New")
	errNoIdentity = errors.New("the owner has neither UID nor name: set one of them")
)

// RegisterPod sets the references of a pod to the objects that its spec names. It
// is idempotent, does not keep the pod and never waits for the network. A pod that
// is nil or has neither UID nor name is logged and ignored. If the manager has no
// [VisitPodFunc], every pod is ignored, and the first one is logged.
func (m *Manager[T]) RegisterPod(pod *corev1.Pod) {
	if pod == nil {
		m.logIgnored(errNilPod, Owner{})
		return
	}
	if m.visitPod == nil {
		m.loggedNoVisitPod.Do(func() { m.logIgnored(errNoVisitPod, podOwner(pod)) })
		return
	}
	buffer := getKeyBuffer()
	defer buffer.free()
	buffer.namespace = pod.Namespace
	m.visitPod(pod, buffer.visit)
	m.set(podOwner(pod), buffer.keys, true)
}

// UnregisterPod deletes the references that the pod was registered with, whatever
// its spec names now. It is idempotent and never waits for the network. A pod that
// is nil or has neither UID nor name is logged and ignored.
func (m *Manager[T]) UnregisterPod(pod *corev1.Pod) {
	if pod == nil {
		m.logIgnored(errNilPod, Owner{})
		return
	}
	m.set(podOwner(pod), nil, true)
}

// SetReferences sets the references of an owner to the given keys. Without keys it
// removes the owner. [Owner] documents how owners are identified; one that has
// neither UID nor name is logged and ignored. SetReferences is idempotent and never
// waits for the network. An object with a key that no object can have is absent,
// as one that was not created yet: Get returns [objectcache.ErrInvalidName] for it. A
// key without a name, or of the wrong scope, is a mistake: it is logged, and never synced.
func (m *Manager[T]) SetReferences(owner Owner, keys ...types.NamespacedName) {
	buffer := getKeyBuffer()
	defer buffer.free()
	buffer.keys = append(buffer.keys, keys...)
	m.set(owner, buffer.keys, false)
}

// logIgnored logs a call that changed nothing.
func (m *Manager[T]) logIgnored(err error, owner Owner) {
	m.logger().Error(err, "References unchanged", "kind", owner.Kind, "owner", klog.KRef(owner.Namespace, owner.Name))
}

// set sets the references of an owner, which is a pod or not. It sorts keys, and does not keep them.
func (m *Manager[T]) set(given Owner, keys []types.NamespacedName, ofPod bool) {
	if !given.hasIdentity() {
		m.logIgnored(errNoIdentity, given)
		return
	}
	slices.SortFunc(keys, compareKeys)
	if existed := m.replace(given, slices.Compact(keys), ofPod); !existed && len(keys) == 0 {
		m.logger().V(4).Info("Owner to remove is not registered", "kind", given.Kind, "owner", klog.KRef(given.Namespace, given.Name), "uid", given.UID)
	}
}

// replace is set for keys that are sorted and unique. It reports whether the owner
// was registered before.
//
// It calls the store with mu held, so that the store counts in the order of the
// calls for one owner, and so that every owner that the store yields is registered.
// That is safe: AddReference and DeleteReference neither block nor call back. The
// store itself has a single lock, so a lock per owner would gain next to nothing.
func (m *Manager[T]) replace(given Owner, keys []types.NamespacedName, ofPod bool) (existed bool) {
	m.mu.Lock()
	defer m.unlock()
	owner := m.owners.resolve(given)
	id := owner.ID()
	others := m.owners.superseded(given, owner, len(keys) > 0, ofPod)
	before, existed := m.owners.byID[id]
	existed = existed || len(others) > 0
	now := m.reviewLocked(before, registration{owner: owner, keys: keys})
	if len(others) == 0 && now.same(before) {
		return existed // the usual case: a node agent registers a pod at each of its syncs
	}
	m.changeReferencesLocked(id, before, now)
	for _, other := range others {
		m.deleteReferencesLocked(other, slices.Values(m.owners.byID[other].keys))
		m.owners.remove(other)
	}
	if len(now.keys)+len(now.denied) == 0 {
		m.owners.remove(id)
		return existed
	}
	now.keys = slices.Clone(now.keys)
	m.owners.put(id, now)
	return existed
}

// changeReferencesLocked adds what an owner references now, and then deletes what it no
// longer references.
func (m *Manager[T]) changeReferencesLocked(id types.UID, before, now registration) {
	m.addReferencesLocked(id, difference(now.keys, before.keys))
	m.deleteReferencesLocked(id, difference(before.keys, now.keys))
}

func (m *Manager[T]) addReferencesLocked(id types.UID, keys iter.Seq[types.NamespacedName]) {
	for key := range keys {
		m.store.AddReference(key.Namespace, key.Name, id)
	}
}

func (m *Manager[T]) deleteReferencesLocked(id types.UID, keys iter.Seq[types.NamespacedName]) {
	for key := range keys {
		m.store.DeleteReference(key.Namespace, key.Name, id)
	}
}
