// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// References beyond the threshold share one stream. With fewer than half of it each has its own again.
func TestSharedThreshold(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all[:3]...)
		time.Sleep(joined)
		r.wantStreams("below the threshold", 0, 3)
		r.wantPhase("below the threshold", servingNamed, all[:3]...)
		r.reference(all[3:]...)
		r.wantValues("at once", "0", all...)
		time.Sleep(joined)
		r.wantStreams("above the threshold", 1, 0)
		r.wantPhase("above the threshold", servingShared, all...)
		for _, name := range all {
			r.update(name, "1")
		}
		r.wantValues("changed", "1", all...)
		r.dereference(all[2:]...)
		r.wantStreams("two are left", 1, 0)
		r.dereference(all[1])
		r.wantStreams("one is left", 1, 0)
		time.Sleep(5*time.Minute + joined)
		r.wantStreams("one is left for five minutes", 0, 1)
		r.wantPhase("one is left", servingNamed, all[0])
		r.update(all[0], "2")
		r.wantValues("one is left", "2", all[0])
		r.reference(all[1:]...)
		time.Sleep(joined)
		r.wantStreams("above the threshold again", 1, 0)
		r.dereference(all...)
		r.wantStreams("none is left", 0, 0)
	})
}

// A number of references that goes up and down across the threshold costs one read of the namespace.
func TestSharedThresholdCrossedAgainAndAgain(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all[0])
		for range 30 {
			r.reference(all[1:]...)
			time.Sleep(time.Minute)
			r.dereference(all[1:]...)
			time.Sleep(time.Minute)
		}
		opened := 0
		for _, request := range r.server.Requests() {
			if isShared(request) && request.Verb != "create" {
				opened++
			}
		}
		if opened > 2 { // the stream, and once more when its time is over
			t.Errorf("reads of the namespace: got %d, want at most 2", opened)
		}
		time.Sleep(5 * time.Minute)
		r.wantStreams("in the end", 0, 1)
		r.dereference(all[0])
		r.wantStreams("none is left", 0, 0)
	})
}

// References that are there before Run need no streams of their own.
func TestSharedFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))}
		all := names(6)
		r.createAll(all[1:]...)
		r.createAll("foreign")
		r.reference(all...)
		r.run()
		r.wantStreams("at once", 1, 0)
		r.wantPhase("at once", absentShared, all[0])
		r.wantPhase("at once", servingShared, all[1:]...)
		r.wantValues("at once", "0", all[1:]...)
		if _, err := r.get(all[0], time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, want NotFound", err)
		}
		r.createAll(all[0])
		r.wantValues("created", "0", all...)
		for _, request := range r.server.Requests() {
			if request.Verb != "create" && !isShared(request) {
				t.Errorf("got a request for %s", request.Name)
			}
		}
		r.stop()
	})
}

// If the first read takes long, references get streams of their own.
func TestSharedFirstReadIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))}
		all := names(6)
		r.createAll(all...)
		release := r.holdBackShared()
		r.reference(all...)
		r.run()
		if _, err := r.get(all[0], 4*time.Second); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("early Get: got %v, want ErrNotSynced", err)
		}
		time.Sleep(2 * time.Second)
		r.wantValues("later", "0", all...)
		release()
		time.Sleep(joined)
		r.wantStreams("in the end", 1, 0)
		r.wantPhase("in the end", servingShared, all...)
		r.stop()
	})
}

// Without WatchList the namespace is listed and then watched.
func TestSharedWithoutWatchList(t *testing.T) {
	inSharedBubbleOn(t, apiserver.Options{InMemory: true, DisableWatchList: true}, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		r.wantStreams("joined", 1, 0)
		r.update(all[0], "1")
		r.closeShared()
		r.update(all[1], "1")
		time.Sleep(time.Minute)
		r.wantValues("stream broken", "1", all[:2]...)
		r.wantPhase("stream broken", servingShared, all...)
	})
}

// Only the namespaces of the options are shared.
func TestSharedNamespaces(t *testing.T) {
	options := sharedOptions(2)
	options.Shared.Namespaces = []string{"shop"}
	inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
		r.createAll(names(4)...)
		r.reference(names(4)...)
		time.Sleep(joined)
		r.wantStreams("another namespace", 0, 4)
	})
}

// Options that cannot work are errors.
func TestSharedOptionsAreChecked(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	untyped, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	widgets := clients.Dynamic(untyped, schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	if _, err := objectcache.NewWatchStore(widgets, sharedOptions(0)); err == nil || !strings.Contains(err.Error(), "needs a REST client") {
		t.Errorf("dynamic client: got %v, want an error that says what it needs", err)
	}
	if _, err := objectcache.NewWatchStore(widgets, objectcache.WatchOptions{}); err != nil {
		t.Errorf("dynamic client, nothing shared: got %v", err)
	}
	bad := sharedOptions(-1)
	bad.Shared.Namespaces = []string{"Shop"}
	_, err = objectcache.NewWatchStore(resource.Secrets(server.Client()), bad)
	for _, want := range []string{"Shared.Threshold is -1", `"Shop"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %s", err, want)
		}
	}
}

// The requests for a namespace have no selector, and no other parameters than those for a name. A list has pages.
func TestSharedRequests(t *testing.T) {
	for name, server := range map[string]apiserver.Options{"WatchList": {InMemory: true}, "list": {InMemory: true, DisableWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			inSharedBubbleOn(t, server, sharedOptions(4), func(t *testing.T, r *sharedRig) {
				r.createAll(names(4)...)
				r.reference(names(4)...)
				time.Sleep(joined)
				r.server.Compact()
				r.closeShared()
				time.Sleep(joined)
				for _, request := range slices.DeleteFunc(r.server.Requests(), func(r apiserver.Request) bool { return !isShared(r) }) {
					for parameter := range request.Query {
						allowed := []string{"allowWatchBookmarks", "resourceVersion", "timeoutSeconds", "watch", "resourceVersionMatch", "sendInitialEvents"}
						if request.Verb == "list" {
							allowed = []string{"resourceVersion", "resourceVersionMatch", "limit", "continue"}
						}
						if !slices.Contains(allowed, parameter) || request.Path != "/api/v1/namespaces/default/secrets" {
							t.Errorf("%s %s: got parameter %s", request.Verb, request.Path, parameter)
						}
					}
				}
			})
		})
	}
}

// holdBackShared blocks requests for the namespace until release is called.
func (r *sharedRig) holdBackShared() (release func()) {
	gate := make(chan struct{})
	r.server.Intercept(blockShared(gate))
	return func() { close(gate) }
}
