// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// names returns n names: s0, s1 and so on.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("s%d", i))
	}
	return all
}

// createAll creates an object for each name.
func (r *rig) createAll(names ...string) {
	for _, name := range names {
		r.create(name, func(s *corev1.Secret) { s.Data["password"] = []byte("0") })
	}
}

// reference adds a reference to each name.
func (r *rig) reference(names ...string) {
	for _, name := range names {
		r.AddReference(namespace, name, "pod")
	}
	synctest.Wait()
}

// wantValues checks what Get returns for each name.
func (r *rig) wantValues(when, value string, names ...string) {
	r.t.Helper()
	synctest.Wait()
	for _, name := range names {
		if got, err := r.get(name, time.Second); err != nil || string(got.Data["password"]) != value {
			r.t.Errorf("%s: Get %s: got %v, %v, want %q", when, name, got, err, value)
		}
	}
}
