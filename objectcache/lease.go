// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Gets of objects without references, for AcquireOnGet.

// LeaseOwner is the UID that references an object for [WatchOptions].AcquireOnGet.
const LeaseOwner types.UID = "refwatch/lease"

// acquireLocked adds a reference of LeaseOwner to an object without references.
func (s *WatchStore[T]) acquireLocked(key types.NamespacedName) *entry[T] {
	return s.addLocked(key, LeaseOwner, false)
}

// startLeaseTimerLocked starts the timer that deletes the reference of LeaseOwner, if
// there is one.
func (s *WatchStore[T]) startLeaseTimerLocked(e *entry[T]) {
	if !e.owners.Has(LeaseOwner) || e.leaseTimer != nil {
		return
	}
	e.leaseTimer = s.startTimerLocked(s.options.AcquireOnGet, func() time.Duration {
		if e.used.And(^usedLease)&usedLease != 0 || e.waiters > 0 {
			return s.options.AcquireOnGet
		}
		s.deleteLocked(e, LeaseOwner)
		return 0
	})
}
