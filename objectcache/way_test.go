// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"

	"github.com/refwatch/refwatch/objectcache"
)

// The way of one plain object: it is referenced, watched, changed, got and released, in a store
// without options. Package test/way counts the statements.
func TestWayOfOnePlainObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		r.mustGet("tls")
		r.update("tls", "new")
		synctest.Wait()
		if got := valueOf(r.mustGet("tls")); got != "new" {
			t.Errorf("got %q, want new", got)
		}
		r.DeleteReference(namespace, "tls", "pod")
		synctest.Wait()
	})
}

// A store without objects: what TestWayOfOnePlainObject executes besides is the way of the object.
func TestWayOfNoObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(_ *testing.T, r *rig) { r.create("tls") })
}
