// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// A Get opens one named watch. Further Gets are answered from memory, and see changes.
func TestGetIsAnsweredFromMemory(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("other", "x")
		for range 1000 {
			r.wantValue("one", "1")
		}
		r.update("one", "2")
		r.wantValue("one", "2")
		r.remove("one")
		if _, err := r.get("one"); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		if got := secretRequests(r.server); !slices.Equal(got, []string{"watch one"}) {
			t.Errorf("got requests %q, want one watch of one", got)
		}
	})
}
