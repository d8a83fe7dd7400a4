// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

func storeCases() []testCase {
	return []testCase{
		{"first-get", "the first Get of an object reflects every write acknowledged before its first reference", firstGet, everyStrategy},
		{"not-found", "Get returns NotFound if and only if the object does not exist", notFound, everyStrategy},
		{"not-registered", "an object without references is not requested from the server", notRegistered, watches | ttl},
		{"updates", "every update becomes visible, and versions never go back", updates, everyStrategy},
		{"changes", "Changes yields the newest state of every object that changes, across broken streams", changes, watches},
		{"first-states", "Changes yields each object's first state, an absent one too, and a known state to a new owner", firstStates, watches},
		{"one-stream", "many owners share one stream, which ends with the last reference", oneStream, watches},
		{"immutable", "an immutable object has no stream after its first sync", immutableHasNoStream, watches},
		{"recreated-immutable", "a new owner of a recreated immutable object never gets the old object", recreatedImmutable, everyStrategy},
		{"many", "a hundred objects referenced at once have a stream each, and no more are opened at a time than the Gate allows", manyObjects, watches},
		{"config-maps", "a store serves ConfigMaps", configMaps, everyStrategy},
		{"slow-first-read", "a Get that waits for a slow first read is answered by a GET, and no state is older when the read arrives", slowFirstRead, watches},
		{"any-kind", "a store serves any kind, with a Go type or without, or its metadata, over any client", anyKind, everyStrategy},
		{"cluster-scoped", "a store serves cluster-scoped kinds", clusterScoped, everyStrategy},
		{"stop", "Run returns when all streams have ended, and Get then returns ErrStopped", stopStore, everyStrategy},
	}
}

// store runs a store of Secrets until the case ends or stop is called.
func (s *suite) store() (store objectcache.Store[*corev1.Secret], stop func()) {
	store = newStore(s, resource.Secrets(s.client))
	return store, s.start(store)
}

// newStore returns a store with the strategy of the case.
func newStore[T cache.Object](s *suite, resource resource.Resource[T]) objectcache.Store[T] {
	s.Helper()
	store, err := objectcache.NewStore(resource, s.storeOptions())
	if err != nil {
		s.Fatal(err)
	}
	return store
}

// observeChanges returns a function that waits until Changes has yielded an object with the value, or its absence if
// value is empty.
func (s *suite) observeChanges(store objectcache.Store[*corev1.Secret]) (wait func(name, value string)) {
	next, stop := iter.Pull2(store.Changes(s.ctx))
	s.Cleanup(stop)
	seen := map[string]string{}
	return func(name, value string) {
		s.Helper()
		for {
			if last, ok := seen[name]; ok && last == value {
				return
			}
			change, _, ok := next()
			if !ok {
				s.Fatalf("waiting for %s to become %q: no more changes", name, value)
			}
			switch seen[change.Key.Name] = ""; {
			case change.Err == nil:
				seen[change.Key.Name] = valueOf(change.Object)
			case !apierrors.IsNotFound(change.Err):
				s.Fatalf("waiting for %s to become %q: %v", name, value, change.Err)
			}
		}
	}
}

// observe returns a function that waits until a store has an object with the value, or its deletion if value is empty.
// A store that watches gets it by itself, another one by a live read.
func (s *suite) observe(store objectcache.Store[*corev1.Secret]) (wait func(name, value string)) {
	if s.engine.strategy == watches {
		return s.observeChanges(store)
	}
	return func(name, value string) {
		s.Helper()
		secret, err := store.GetWithOptions(s.ctx, s.namespace, name, objectcache.GetOptions{Live: true})
		if value == "" && apierrors.IsNotFound(err) {
			return
		}
		if err != nil || valueOf(secret) != value {
			s.Fatalf("live Get %s: got %q, %v, want %q", name, valueOf(secret), err, value)
		}
	}
}

func firstGet(s *suite) {
	store, _ := s.store()
	s.create("tls", "-")
	for i := range 10 {
		value := fmt.Sprint(i)
		s.update("tls", value)
		store.AddReference(s.namespace, "tls", "pod")
		s.wantObject(store, "tls", value)
		store.DeleteReference(s.namespace, "tls", "pod")
	}
}

func notFound(s *suite) {
	store, _ := s.store()
	store.AddReference(s.namespace, "tls", "pod")
	s.wantNotFound(store, "tls")
	wait := s.observe(store)
	s.create("tls", "1")
	wait("tls", "1")
	s.wantObject(store, "tls", "1")
	s.remove("tls")
	wait("tls", "")
	s.wantNotFound(store, "tls")
}

func notRegistered(s *suite) {
	store, _ := s.store()
	s.create("tls", "1")
	s.wantNotRegistered(store, "tls")
	s.wantStreams("after Get", 0)
}

func updates(s *suite) {
	store, _ := s.store()
	s.create("tls", "0")
	store.AddReference(s.namespace, "tls", "pod")
	s.wantObject(store, "tls", "0")
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		last := uint64(0)
		for {
			secret, err := store.Get(s.ctx, s.namespace, "tls")
			if err != nil {
				s.Errorf("Get: %v", err)
				return
			}
			if version := s.parseVersion(secret.ResourceVersion); version < last {
				s.Errorf("got version %d after %d, want no older one", version, last)
			} else {
				last = version
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	wait := s.observe(store)
	for i := range 50 {
		s.update("tls", fmt.Sprint(i+1))
	}
	wait("tls", "50")
	close(done)
	reader.Wait()
	s.wantObject(store, "tls", "50")
}

func changes(s *suite) {
	store, _ := s.store()
	s.create("a", "0")
	for _, name := range []string{"a", "b"} {
		store.AddReference(s.namespace, name, "pod")
	}
	wait := s.observeChanges(store)
	wait("a", "0")
	for i := range 3 {
		s.breakStreams()
		value := fmt.Sprint("after break ", i)
		s.update("a", value)
		s.create("b", value)
		wait("a", value)
		wait("b", value)
		s.wantObject(store, "b", value)
		s.remove("b")
		wait("b", "")
	}
}

func firstStates(s *suite) {
	store, _ := s.store()
	s.create("there", "1")
	for _, name := range []string{"there", "absent"} {
		store.AddReference(s.namespace, name, "pod-1")
	}
	next, stop := iter.Pull2(store.Changes(s.ctx))
	defer stop()
	// want checks the next changes, in any order, as "name value".
	want := func(when string, want ...string) {
		s.Helper()
		var got []string
		for range want {
			change, owners, _ := next()
			state := valueOf(change.Object)
			switch {
			case change.Deleted && apierrors.IsNotFound(change.Err):
				state = "deleted"
			case apierrors.IsNotFound(change.Err):
				state = "absent"
			case change.Err != nil:
				state = change.Err.Error()
			}
			got = append(got, fmt.Sprint(change.Key.Name, " ", state, " ", owners))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			s.Fatalf("%s: got %q, want %q", when, got, want)
		}
	}
	want("first states", "absent absent [pod-1]", "there 1 [pod-1]")
	store.AddReference(s.namespace, "absent", "pod-2")
	want("a new owner", "absent absent [pod-1 pod-2]")
	s.create("absent", "2")
	want("created", "absent 2 [pod-1 pod-2]")
	s.remove("absent")
	want("deleted", "absent deleted [pod-1 pod-2]")
	store.AddReference(s.namespace, "absent", "pod-3")
	want("a new owner after that", "absent absent [pod-1 pod-2 pod-3]")
}

func oneStream(s *suite) {
	store, _ := s.store()
	s.create("tls", "1")
	for range 2 {
		store.AddReference(s.namespace, "tls", "pod-1")
		store.AddReference(s.namespace, "tls", "pod-1")
		store.AddReference(s.namespace, "tls", "pod-2")
		s.wantObject(store, "tls", "1")
		s.wantStreams("two owners", 1)
		store.DeleteReference(s.namespace, "tls", "pod-1")
		store.DeleteReference(s.namespace, "tls", "pod-2")
		s.wantObject(store, "tls", "1")
		s.wantStreams("one owner", 1)
		store.DeleteReference(s.namespace, "tls", "pod-1")
		s.wantStreams("no owner", 0)
	}
}

// wantSynced waits until the list or watch of an object has synced it. A Get may have been answered by a GET before.
func (s *suite) wantSynced(store objectcache.Store[*corev1.Secret], name string) {
	s.Helper()
	if _, err := store.GetWithOptions(s.ctx, s.namespace, name, objectcache.GetOptions{Live: true}); err != nil {
		s.Fatalf("live Get %s: got %v, want the object", name, err)
	}
}

func immutableHasNoStream(s *suite) {
	store, _ := s.store()
	s.create("tls", "1", immutable)
	store.AddReference(s.namespace, "tls", "pod")
	s.wantObject(store, "tls", "1")
	s.wantSynced(store, "tls")
	s.wantStreams("after the first sync", 0)
	s.wantObject(store, "tls", "1")
}

func recreatedImmutable(s *suite) {
	store, _ := s.store()
	s.create("tls", "old", immutable)
	store.AddReference(s.namespace, "tls", "pod-1")
	s.wantObject(store, "tls", "old")
	s.wantSynced(store, "tls")
	s.wantStreams("after the first sync", 0)
	for i := range 5 {
		s.remove("tls")
		value := fmt.Sprint("new-", i)
		created := s.create("tls", value, immutable)
		store.AddReference(s.namespace, "tls", created.UID) // a new owner each time
		if got := s.wantObject(store, "tls", value); got.UID != created.UID {
			s.Errorf("got UID %s, want %s", got.UID, created.UID)
		}
	}
	s.remove("tls")
	store.AddReference(s.namespace, "tls", "last")
	s.wantNotFound(store, "tls")
}

func manyObjects(s *suite) {
	const count, first, limit = 100, 4, 32 // a Gate opens four streams at a time at first, and more with each response
	reads := newReadCounter(first)
	options, gate := s.storeOptions(), objectcache.NewGate(objectcache.GateOptions{Opens: limit})
	switch o := options.(type) {
	case objectcache.WatchOptions:
		o.Gate = gate
		options = o
	case objectcache.TTLOptions:
		o.Gate = gate
		options = o
	}
	store, err := objectcache.NewStore(resource.Secrets(s.clientFor(reads.wrap(s.Config))), options)
	if err != nil {
		s.Fatal(err)
	}
	s.start(store)
	for i := range count {
		name := fmt.Sprint("tls-", i)
		s.create(name, name)
	}
	var all sync.WaitGroup
	for i := range count {
		name := fmt.Sprint("tls-", i)
		all.Go(func() {
			store.AddReference(s.namespace, name, "pod")
			secret, err := store.Get(s.ctx, s.namespace, name)
			if err != nil || valueOf(secret) != name {
				s.Errorf("Get %s: got %q, %v, want %q", name, valueOf(secret), err, name)
			}
		})
	}
	all.Wait()
	s.wantStreams("all referenced", count)
	if got := reads.max(); got == 0 || got > limit { // how many come together in countedFor depends on the machine
		s.Errorf("reads at a time: got %d, want 1 to %d", got, limit)
	}
	for i := range count {
		store.DeleteReference(s.namespace, fmt.Sprint("tls-", i), "pod")
	}
	s.wantStreams("none referenced", 0)
}

func stopStore(s *suite) {
	store, stop := s.store()
	s.create("tls", "1")
	store.AddReference(s.namespace, "tls", "pod")
	store.AddReference(s.namespace, "absent", "pod")
	s.wantObject(store, "tls", "1")
	stop()
	s.wantStreams("after Run has returned", 0)
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !errors.Is(err, objectcache.ErrStopped) {
		s.Errorf("Get: got %v, want ErrStopped", err)
	}
}
