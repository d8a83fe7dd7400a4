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

	"github.com/refwatch/refwatch/internal/redact"
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
// panic denies the reference, and its value is dropped: it may hold an object.
type ReferencePolicy func(owner Owner, key types.NamespacedName) error

// review calls the policy.
func (p ReferencePolicy) review(owner Owner, key types.NamespacedName) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("the policy panicked with a %T", value)
		}
	}()
	return redact.Bound(p(owner, key)) // it is kept for each reference
}

// SetReferencePolicy sets the policy that each reference must pass, and applies it to all
// references of all owners. Without a policy, or with nil, every reference counts. Call it
// before the first owner is registered, and again, with the same function, whenever its
// answers may have changed: the manager deletes the references that the policy now denies,
// and adds those that it now permits. It also asks the policy in each call that sets
// references. SetReferencePolicy never waits for the network. Other calls of the manager
// wait until the policy has answered for all references.
//
// A denied reference opens no stream, and causes no request. So its denial depends on the
// policy alone, and does not show whether the object exists. [Manager.Get] and
// [Manager.TryGet] know no owner, and do not ask the policy: read with [Manager.GetFor].
// Changes yields an object again for an owner that is permitted now, and nothing for one
// that is denied now: reconcile the owners after the call.
func (m *Manager[T]) SetReferencePolicy(policy ReferencePolicy) {
	m.mu.Lock()
	defer m.unlock()
	m.policy = policy
	after := make(map[types.UID]registration, len(m.owners.byID))
	for id, now := range m.owners.byID { // before the first change: a policy may end its goroutine
		before := now
		now.keys = slices.AppendSeq(slices.Clone(now.keys), maps.Keys(now.denied))
		slices.SortFunc(now.keys, compareKeys)
		after[id] = m.reviewLocked(before, now)
	}
	for id, now := range after {
		m.addReferencesLocked(id, difference(now.keys, m.owners.byID[id].keys))
	}
	// An object that one owner loses and another gains keeps its stream.
	for id, now := range after {
		m.deleteReferencesLocked(id, difference(m.owners.byID[id].keys, now.keys))
		m.owners.put(id, now)
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

// CheckReference returns nil if a reference of the owner to the object counts, by the last
// answer of the policy. The owner is identified as for References. Otherwise the error is
// [ErrReferenceDenied], with the reason of the policy, or [objectcache.ErrNotRegistered] if
// the owner does not reference the object. It does not depend on whether the object exists.
// Call it before you use, for one owner, an object that another owner may reference as well.
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
// it counts, before and after the wait. Its errors are those of Get and of CheckReference.
// It references nothing itself: [objectcache.WatchOptions].AcquireOnGet does not apply.
func (m *Manager[T]) GetFor(ctx context.Context, owner Owner, namespace, name string) (T, error) {
	var none T
	if err := m.CheckReference(owner, namespace, name); err != nil {
		return none, err
	}
	object, err := m.GetWithOptions(ctx, namespace, name, objectcache.GetOptions{NoAcquire: true})
	if denied := m.CheckReference(owner, namespace, name); denied != nil {
		return none, denied
	}
	return object, err
}
