// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// blockingStreams gives rigs a server and a client whose streams cannot be parked. Tests are
// not parallel.
var blockingStreams bool

// parkedAndBlocking runs f with parked streams and with blocking ones. That is for tests
// of how streams are read and end; the tests of package reflector have more of them.
func parkedAndBlocking(t *testing.T, f func(*testing.T)) {
	t.Helper()
	t.Run("parked", f)
	t.Run("blocking", func(t *testing.T) {
		blockingStreams = true
		defer func() { blockingStreams = false }()
		f(t)
	})
}

// manyStreams keeps the streams of a test from parking under the race detector: TLS takes
// minutes there for hundreds of streams. make compat runs all tests without it.
func manyStreams(t *testing.T) {
	if testmain.Race {
		blockingStreams = true
		t.Cleanup(func() { blockingStreams = false })
	}
}

// inBubble runs f in a bubble, with a store that is running.
func inBubble(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	beforeRun(t, options, func(t *testing.T, r *rig) {
		r.run()
		f(t, r)
	})
}

// inBubbles is inBubble, with parked streams and with blocking ones.
func inBubbles(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *rig)) {
	t.Helper()
	parkedAndBlocking(t, func(t *testing.T) { inBubble(t, options, f) })
}

// beforeRun runs f in a bubble, with a store on which Run has not been called.
func beforeRun(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, options)
		f(t, r)
		r.stop()
	})
}

// clientOf returns the client of a store.
func clientOf(t *testing.T, server *apiserver.Server) kubernetes.Interface {
	t.Helper()
	if blockingStreams {
		return server.Client()
	}
	client, err := kubernetes.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		t.Fatal(err)
	}
	return client
}
