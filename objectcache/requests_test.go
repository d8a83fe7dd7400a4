// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A store sends only lists and watches of one name in one namespace. A Role with
// resourceNames allows no others.
func TestRequestsAreNamed(t *testing.T) {
	plainWatch := []string{"allowWatchBookmarks", "fieldSelector", "resourceVersion", "timeoutSeconds", "watch"}
	watchList := append([]string{"resourceVersionMatch", "sendInitialEvents"}, plainWatch...)
	tests := map[string]struct {
		server  apiserver.Options
		allowed map[string][]string // the query parameters of each verb
	}{
		"WatchList": {
			apiserver.Options{InMemory: true},
			// If WatchLists are refused, the store tries a list.
			map[string][]string{"watch": watchList, "list": {"fieldSelector", "resourceVersion"}},
		},
		"list and watch": {
			apiserver.Options{InMemory: true, DisableWatchList: true},
			// The first watch finds out.
			map[string][]string{"watch": watchList, "list": {"fieldSelector", "resourceVersion"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, test.server, objectcache.WatchOptions{})
				requests := requestsOfAllKinds(t, r)
				if len(requests) < 8 {
					t.Fatalf("got %d requests, want at least 8", len(requests))
				}
				for _, request := range requests {
					if request.Verb == "get" && request.Path == "/api/v1/namespaces/default/secrets/tls" && len(request.Query) == 0 {
						continue // lists and watches fail
					}
					allowed, ok := test.allowed[request.Verb]
					if !ok || request.Path != "/api/v1/namespaces/default/secrets" ||
						request.Query.Get("fieldSelector") != "metadata.name=tls" {
						t.Errorf("got %s %s?%s, want lists, watches and GETs of one name", request.Verb, request.Path, request.Query.Encode())
					}
					for parameter := range maps.Keys(request.Query) {
						if !slices.Contains(allowed, parameter) {
							t.Errorf("%s: got parameter %s, want only %v", request.Verb, parameter, allowed)
						}
					}
				}
			})
		})
	}
}

// requestsOfAllKinds makes a store send all kinds of requests, and returns them.
func requestsOfAllKinds(t *testing.T, r *rig) []apiserver.Request {
	const agent = "the-store"
	config := resource.ConfigFor(r.server.Config())
	config.UserAgent = agent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, resource.Secrets(client), objectcache.WatchOptions{
		IdleTimeout: 10 * time.Minute, MaxStaleness: 5 * time.Minute,
	})
	stop := runStore(t.Context(), t, store)
	get := func() { _, _ = store.Get(t.Context(), namespace, "tls") }
	r.create("tls", immutable)
	store.AddReference(namespace, "tls", "pod-1")
	get()
	store.AddReference(namespace, "tls", "pod-2") // reads the immutable object again
	get()
	r.remove("tls")
	r.create("tls")
	store.AddReference(namespace, "tls", "pod-3") // finds a mutable object
	get()
	for _, fault := range []func(){
		func() { r.server.CloseStreams(nil) },
		func() { r.server.Compact(); r.server.CloseStreams(nil) },
		func() { r.refuse(unavailable()); r.server.CloseStreams(nil) },
		func() { r.refuse(forbidden()) },
		func() { r.refuse(nil); time.Sleep(time.Hour); get() },
	} {
		fault()
		time.Sleep(time.Minute)
	}
	store.DeleteReference(namespace, "tls", "pod-3")
	stop()
	return slices.DeleteFunc(r.server.Requests(), func(request apiserver.Request) bool { return request.UserAgent != agent })
}
