// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// An object whose stream had ended and could not be opened again was in the phase
// Watching, because nothing had failed.
func TestIssue8NotWatchingWithoutAStream(t *testing.T) {
	tests := map[string]struct {
		server apiserver.Options
		hangs  string // the verb
	}{
		"WatchList":      {apiserver.Options{InMemory: true}, "watch"},
		"list and watch": {apiserver.Options{InMemory: true, DisableWatchList: true}, "list"},
		"only the watch": {apiserver.Options{InMemory: true, DisableWatchList: true}, "watch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.server, objectcache.WatchOptions{})
				r.run()
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls")
				if got := r.phase("tls"); got != objectcache.Watching {
					t.Fatalf("phase: got %s, want Watching", got)
				}
				release := r.holdBack(test.hangs)
				r.server.CloseStreams(nil)
				for range 20 {
					time.Sleep(time.Second)
					if got := r.phase("tls"); got != objectcache.Reopening && got != objectcache.Failing {
						t.Errorf("phase: got %s, want Reopening", got)
					}
				}
				r.mustGet("tls")
				release()
				time.Sleep(time.Minute)
				if got := r.phase("tls"); got != objectcache.Watching {
					t.Errorf("phase: got %s, want Watching again", got)
				}
				r.stop()
			})
		})
	}
}
