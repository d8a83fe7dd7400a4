// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// References beyond the threshold share one stream. With fewer than half of it each has its own again.
func TestSharedThreshold(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all[:3]...)
		time.Sleep(joined)
		r.wantStreams("below the threshold", 0, 3)
		r.wantPhase("below the threshold", objectcache.Watching, all[:3]...)
		r.reference(all[3:]...)
		r.wantValues("at once", "0", all...)
		time.Sleep(joined)
		r.wantStreams("above the threshold", 1, 0)
		r.wantPhase("above the threshold", objectcache.Shared, all...)
		for _, name := range all {
			r.update(name, "1")
		}
		r.wantValues("changed", "1", all...)
		r.dereference(all[2:]...)
		r.wantStreams("two are left", 1, 0)
		r.dereference(all[1])
		r.wantStreams("one is left", 0, 1)
		r.wantPhase("one is left", objectcache.Watching, all[0])
		r.update(all[0], "2")
		r.wantValues("one is left", "2", all[0])
		r.reference(all[1:]...)
		time.Sleep(joined)
		r.wantStreams("above the threshold again", 1, 0)
		r.dereference(all...)
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
		r.wantPhase("at once", objectcache.Shared, all...)
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
		r.wantPhase("in the end", objectcache.Shared, all...)
		r.stop()
	})
}

// Without WatchList the namespace is listed and then watched.
func TestSharedWithoutWatchList(t *testing.T) {
	for name, clientGo := range map[string]bool{"own engine": false, "client-go's": true} {
		t.Run(name, func(t *testing.T) {
			options := sharedOptions(4)
			options.ClientGoReflector = clientGo
			inSharedBubbleOn(t, apiserver.Options{InMemory: true, DisableWatchList: true}, options, func(t *testing.T, r *sharedRig) {
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
				r.wantPhase("stream broken", objectcache.Shared, all...)
			})
		})
	}
}

// Immutable objects have no stream. They are not counted, and do not begin a shared stream.
func TestSharedImmutable(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		for _, name := range all[:4] {
			r.create(name, immutable)
		}
		r.createAll(all[4:]...)
		r.reference(all[:3]...)
		r.reference(all[3:6]...)
		time.Sleep(joined)
		r.wantStreams("two that change", 0, 2)
		r.wantPhase("two that change", objectcache.Immutable, all[:4]...)
		for _, name := range all[:4] {
			r.AddReference(namespace, name, "pod-2") // which reads the object again
		}
		r.wantValues("another owner", canary, all[:4]...)
		if got := r.sharedRequests(); got != 0 {
			t.Errorf("requests for the namespace: got %d, want none", got)
		}
		r.reference(all[6:]...)
		time.Sleep(joined)
		r.wantStreams("four that change", 1, 0)
		r.seal(all[4], "sealed")
		r.wantValues("sealed", "sealed", all[4])
		time.Sleep(joined)
		r.wantPhase("sealed", objectcache.Immutable, all[:5]...)
		r.remove(all[4])
		r.create(all[4], func(s *corev1.Secret) { s.Data["password"] = []byte("other") })
		time.Sleep(time.Hour)
		r.wantValues("created again", "other", all[4])
		r.wantPhase("created again", objectcache.Shared, all[4:]...)
		r.wantStreams("in the end", 1, 0)
	})
}

// Reads for the owners of one object are not reads for those of another: a new owner of an immutable object gets the
// object that was created in its place.
func TestSharedReadsAreNotForOwners(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for _, owner := range []types.UID{"a", "b", "c", "d"} {
			r.AddReference(namespace, all[1], owner)
		}
		r.closeShared()
		time.Sleep(time.Minute)
		r.seal(all[0], "old")
		time.Sleep(time.Minute)
		r.wantPhase("sealed", objectcache.Immutable, all[0])
		r.remove(all[0])
		r.create(all[0], immutable)
		r.AddReference(namespace, all[0], "pod-2")
		if got := r.mustGet(all[0]); string(got.Data["password"]) != canary {
			t.Errorf("created again: got %q, want the new object", got.Data)
		}
	})
}

// A Get that demands a read gets one of its own.
func TestSharedDemands(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		reads := r.opens(all[0])
		got, err := r.GetWithOptions(t.Context(), namespace, all[0], objectcache.GetOptions{Live: true})
		if err != nil || string(got.Data["password"]) != "0" {
			t.Errorf("live Get: got %v, %v", got, err)
		}
		if r.opens(all[0]) != reads+1 {
			t.Errorf("reads: got %d, want 1", r.opens(all[0])-reads)
		}
		time.Sleep(joined)
		r.wantStreams("joined again", 1, 0)
		version := r.update(all[1], "1").ResourceVersion
		if got, err := r.GetWithOptions(t.Context(), namespace, all[1], objectcache.GetOptions{NotOlderThan: version}); err != nil || got.ResourceVersion != version {
			t.Errorf("Get of a version: got %v, %v", got, err)
		}
		later := make(chan error, 1)
		go func() {
			_, err := r.GetWithOptions(t.Context(), namespace, all[2], objectcache.GetOptions{NotOlderThan: next(version)})
			later <- err
		}()
		time.Sleep(50 * time.Millisecond)
		reads = r.opens(all[2])
		r.update(all[3], "1")
		if err := <-later; err != nil {
			t.Errorf("Get of a version of another object: got %v", err)
		}
		if r.opens(all[2]) != reads {
			t.Error("Get of a version of another object: got a read of its own, want the shared stream to bring it")
		}
	})
}

// next returns the version after a version.
func next(version string) string {
	number, _ := strconv.Atoi(version)
	return strconv.Itoa(number + 1)
}

// The age of an object is that of the last contact of the shared stream.
func TestSharedStaleness(t *testing.T) {
	options := sharedOptions(4)
	options.MaxStaleness = 150 * time.Second
	inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for range 10 {
			time.Sleep(35 * time.Second)
			if _, err := r.TryGet(namespace, all[3]); err != nil {
				t.Errorf("bookmarks arrive: got %v", err)
			}
			if status, _ := r.Status(namespace, all[3]); time.Since(status.LastContact) > 61*time.Second {
				t.Errorf("LastContact: got %v ago, want a minute at most", time.Since(status.LastContact))
			}
		}
	})
}

// A Get of a state that is too old reads the namespace again, once for all members.
func TestSharedStaleStateIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := sharedOptions(4)
		options.MaxStaleness = 10 * time.Second
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, options)}
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		r.run()
		time.Sleep(30 * time.Second) // bookmarks come once a minute
		before := len(r.server.Requests())
		r.wantValues("stale", "0", all...)
		if got := r.server.Requests()[before:]; len(got) != 1 || !isShared(got[0]) {
			t.Errorf("requests: got %v, want one of the namespace", got)
		}
		r.stop()
	})
}

// An idle object leaves the shared stream.
func TestSharedIdle(t *testing.T) {
	options := sharedOptions(4)
	options.IdleTimeout = 20 * time.Minute
	inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		for range 8 {
			r.wantValues("in use", "0", all[:4]...)
			time.Sleep(10 * time.Minute)
		}
		r.wantStreams("two are idle", 1, 0)
		r.wantPhase("two are idle", objectcache.Idle, all[4:]...)
		r.update(all[4], "1")
		r.wantValues("in use again", "1", all[4])
		time.Sleep(time.Hour)
		r.wantStreams("all are idle", 0, 0)
	})
}

// An object that only read-once references need has no stream, and is not counted.
func TestSharedReadOnce(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		for _, name := range all {
			r.AddReadOnceReference(namespace, name, "pod")
			r.mustGet(name)
		}
		time.Sleep(joined)
		r.wantStreams("read once", 0, 0)
		r.reference(all[:5]...)
		time.Sleep(joined)
		r.wantStreams("watched", 1, 0)
		r.update(all[0], "1")
		r.wantValues("watched", "1", all[0])
		for _, name := range all[:3] {
			r.DeleteReference(namespace, name, "pod")
			r.AddReadOnceReference(namespace, name, "pod")
			r.DeleteReference(namespace, name, "pod")
		}
		time.Sleep(joined)
		r.wantPhase("watched by none", objectcache.ReadOnce, all[:3]...)
		r.wantPhase("two are watched", objectcache.Shared, all[3:5]...)
	})
}

// The function of WithTransform is applied to what the shared stream brings. If it fails for an object, the others get
// streams of their own at once.
func TestSharedTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))}
		resource := objectcache.Secrets(r.client).WithTransform(func(secret *corev1.Secret) *corev1.Secret {
			if string(secret.Data["password"]) == "bad" {
				panic("bad")
			}
			secret.Data["password"] = append([]byte("transformed "), secret.Data["password"]...)
			return secret
		})
		r.Store = newStore(t, resource, sharedOptions(4))
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		r.run()
		sub := r.subscribe()
		defer sub.stop()
		time.Sleep(joined)
		r.wantPhase("at first", objectcache.Shared, all...)
		r.wantValues("at first", "transformed 0", all...)
		sub.seen()
		r.update(all[1], "1")
		r.wantValues("changed", "transformed 1", all[1])
		want(t, "changed", sub.seen(), all[1]+"=transformed 1")
		r.update(all[0], "bad")
		r.update(all[1], "2")
		time.Sleep(3 * time.Second)
		r.wantValues("a bad object", "transformed 2", all[1])
		time.Sleep(retried)
		r.wantPhase("in the end", objectcache.Shared, all[1:]...)
		r.stop()
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
	widgets := objectcache.Dynamic(untyped, schema.GroupVersionResource{Version: "v1", Resource: "secrets"})
	if _, err := objectcache.NewWatchStore(widgets, sharedOptions(0)); err == nil || !strings.Contains(err.Error(), "GetClient") {
		t.Errorf("dynamic client: got %v, want an error that names GetClient", err)
	}
	if _, err := objectcache.NewWatchStore(widgets, objectcache.WatchOptions{}); err != nil {
		t.Errorf("dynamic client, nothing shared: got %v", err)
	}
	bad := sharedOptions(-1)
	bad.Shared.Namespaces = []string{"Shop"}
	_, err = objectcache.NewWatchStore(objectcache.Secrets(server.Client()), bad)
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
