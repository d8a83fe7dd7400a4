// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
)

// ErrReferenceDenied is wrapped by the errors of CheckReference and GetFor if the
// [ReferencePolicy] denies the reference. The reason of the policy is wrapped, too.
var ErrReferenceDenied = errors.New("reference denied")

// ReferencePolicy decides whether the reference of an owner to an object counts. It
// returns nil if it does, and otherwise the reason, which [Manager.CheckReference] and
// [Manager.GetFor] return. A program that lets users name objects in namespaces that are
// not theirs needs one: Gateway API's ReferenceGrant is such a policy, and
// examples/referencegrants implements it.
//
// The manager calls it with a lock held: it must neither wait nor call the manager. A
// panic denies the reference.
type ReferencePolicy func(owner Owner, key types.NamespacedName) error

// review calls the policy. The value of a panic is dropped: it may hold an object.
func (p ReferencePolicy) review(owner Owner, key types.NamespacedName) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the policy panicked with a %T", value)
		}
	}()
	return p(owner, key)
}

// SetReferencePolicy sets the policy that each reference must pass, and applies it to all
// references of all owners. Without a policy, or with nil, every reference counts. Call it
// before the first owner is registered, and again, with the same function, whenever its
// answers may have changed: references that are denied by now are deleted, and those that
// are permitted by now are added. The manager also asks the policy in each call that sets
// references. SetReferencePolicy never waits for the network.
//
// A denied reference opens no stream, and causes no request. So its denial depends on the
// policy alone, and does not show whether the object exists.
func (m *Manager[T]) SetReferencePolicy(policy ReferencePolicy) {
	m.mu.Lock()
	defer m.unlock()
	m.policy = policy
	after := make(map[types.UID]registration, len(m.owners.byID))
	for id, registration := range m.owners.byID { // before the first change: a policy may end its goroutine
		now := registration
		now.keys = slices.AppendSeq(slices.Clone(registration.keys), maps.Keys(registration.denied))
		slices.SortFunc(now.keys, compareKeys)
		after[id] = m.reviewLocked(registration, now)
	}
	before := maps.Clone(m.owners.byID)
	for id, now := range after {
		m.addReferencesLocked(id, now, difference(now.keys, before[id].keys))
		m.owners.put(id, now)
	}
	// An object that one owner loses and another gains keeps its stream.
	for id, registration := range before {
		m.deleteReferencesLocked(id, difference(registration.keys, m.owners.byID[id].keys))
	}
}

// denial is a denied reference.
type denial struct {
	owner  Owner
	key    types.NamespacedName
	reason error
}

// reviewLocked returns now with the keys that the policy denies moved from keys, whose
// array it changes, to denied. Denials that before does not have are logged by unlock.
func (m *Manager[T]) reviewLocked(before, now registration) registration {
	now.denied = nil
	if m.policy == nil {
		return now
	}
	now.keys = slices.DeleteFunc(now.keys, func(key types.NamespacedName) bool {
		reason := m.policy.review(now.owner, key)
		if reason == nil {
			return false
		}
		if now.denied == nil {
			now.denied = map[types.NamespacedName]error{}
		}
		now.denied[key] = reason
		if before.denied[key] == nil {
			m.denials = append(m.denials, denial{now.owner, key, reason})
		}
		return true
	})
	return now
}

// unlock releases the lock, and logs the denials since it was taken.
func (m *Manager[T]) unlock() {
	denials := m.denials
	m.denials = nil
	m.mu.Unlock()
	for _, d := range denials {
		m.logger().V(2).Info("Reference denied by the policy", "kind", d.owner.Kind, "owner", klog.KRef(d.owner.Namespace, d.owner.Name),
			"object", d.key, "reason", d.reason)
	}
}

// CheckReference returns nil if a reference of the owner to the object counts now. The
// owner is identified as for References. Otherwise the error is [ErrReferenceDenied], with
// the reason of the policy, or [objectcache.ErrNotRegistered] if the owner does not
// reference the object. It does not depend on whether the object exists. Call it before
// you use, for one owner, an object that another owner may reference as well.
func (m *Manager[T]) CheckReference(owner Owner, namespace, name string) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	m.mu.Lock()
	defer m.mu.Unlock()
	var denied error
	for _, id := range m.owners.matching(owner) {
		registration := m.owners.byID[id]
		if registration.has(key) {
			return nil
		}
		if reason := registration.denied[key]; reason != nil {
			denied = reason
		}
	}
	if denied != nil {
		return fmt.Errorf("%w: %s to %q: %w", ErrReferenceDenied, owner.describe(), key, denied)
	}
	return notReferencedError{owner, key}
}

// notReferencedError says that an owner does not reference an object. Others may.
type notReferencedError struct {
	owner Owner
	key   types.NamespacedName
}

func (e notReferencedError) Error() string {
	return fmt.Sprintf("%s does not reference %q: register it, or set its references", e.owner.describe(), e.key)
}

func (notReferencedError) Is(target error) bool { return target == objectcache.ErrNotRegistered }

// GetFor is Get for one owner: it returns the object only if a reference of the owner to
// it counts, before and after the wait. The other errors are those of CheckReference. An
// object that a Get has acquired ([objectcache.WatchOptions].AcquireOnGet) is no reference.
func (m *Manager[T]) GetFor(ctx context.Context, owner Owner, namespace, name string) (T, error) {
	var none T
	if err := m.CheckReference(owner, namespace, name); err != nil {
		return none, err
	}
	object, err := m.Get(ctx, namespace, name)
	if denied := m.CheckReference(owner, namespace, name); denied != nil {
		return none, denied
	}
	return object, err
}
