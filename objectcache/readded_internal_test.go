// SPDX-License-Identifier: Apache-2.0

package objectcache

import corev1 "k8s.io/api/core/v1"

// KeptBackoffs returns of how many objects without references a store keeps the back-off.
func KeptBackoffs(store Store[*corev1.Secret]) int {
	s := store.(*WatchStore[*corev1.Secret])
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.backoffs.lately) + len(s.backoffs.before)
}
