// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// blockingStreams keeps the stores of rigs from parking their streams. Tests are not parallel.
var blockingStreams bool

// eachEngine runs f as the subtests "parked" and "blocking".
func eachEngine(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Run("parked", f)
	t.Run("blocking", func(t *testing.T) {
		blockingStreams = true
		defer func() { blockingStreams = false }()
		f(t)
	})
}

// eachBubble runs f in a bubble for each engine.
func eachBubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	eachEngine(t, func(t *testing.T) { synctest.Test(t, f) })
}

// inBubble runs f in a bubble, with a store that is running. If it watches, it does so
// with each engine.
func inBubble(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	beforeRun(t, options, func(t *testing.T, r *rig) {
		r.run()
		f(t, r)
	})
}

// beforeRun runs f in a bubble, with a store on which Run has not been called. If it
// watches, it does so with each engine.
func beforeRun(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	run := synctest.Test
	if _, ok := options.(objectcache.WatchOptions); ok {
		run = eachBubble
	}
	run(t, func(t *testing.T) { withRig(t, options, f) })
}

// inOneBubble is inBubble with the engine of the test that runs. A test with state outside
// its bubble calls it, within eachEngine.
func inOneBubble(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		withRig(t, options, func(t *testing.T, r *rig) {
			r.run()
			f(t, r)
		})
	})
}

// withRig runs f, in a bubble, with a store on which Run has not been called.
func withRig(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	r := newRig(t, apiserver.Options{InMemory: true}, options)
	f(t, r)
	r.stop()
}

// clientOf returns the client of a store.
func clientOf(t *testing.T, server *apiserver.Server) kubernetes.Interface {
	t.Helper()
	if blockingStreams {
		return server.Client()
	}
	client, err := kubernetes.NewForConfig(objectcache.ConfigFor(server.Config()))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
