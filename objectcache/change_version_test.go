// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache"
)

// A Change has the version of the object; after its deletion that of the deletion, which is newer.
func TestChangeHasTheVersion(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithCancel(t.Context())
		versions := make(chan string, 10)
		go func() {
			defer close(versions)
			for change := range r.Changes(ctx) {
				versions <- change.ResourceVersion
			}
		}()
		if got := <-versions; got != created.ResourceVersion {
			t.Errorf("the object: got version %q, want %q", got, created.ResourceVersion)
		}
		synctest.Wait()
		r.remove("tls")
		got := <-versions
		if order, err := states.CompareVersions(got, created.ResourceVersion); err != nil || order <= 0 {
			t.Errorf("its deletion: got version %q, want one after %q", got, created.ResourceVersion)
		}
		cancel()
		for range versions {
			t.Error("got another change")
		}
	})
}
