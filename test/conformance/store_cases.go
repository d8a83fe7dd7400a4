// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

func storeCases() []testCase {
	return []testCase{
		{"first-get", "the first Get after the first reference sees every write acknowledged before", firstGet},
		{"not-found", "NotFound if and only if the server has none", notFound},
		{"not-registered", "what nobody references is not asked for", notRegistered},
		{"updates", "every update becomes visible, and versions never go back", updates},
		{"changes", "who follows is told the newest state of all that changes, across broken streams", changes},
		{"one-stream", "one stream for many owners, none after the last", oneStream},
		{"immutable", "an immutable object needs no stream", immutableSettles},
		{"recreated-immutable", "a new owner never gets the predecessor of a recreated object", recreatedImmutable},
		{"many", "a hundred objects at once, each by its own stream, of which at most 32 are being opened at a time", many},
		{"config-maps", "ConfigMaps as well as Secrets", configMaps},
		{"any-kind", "any kind for which there is a typed client", anyKind},
		{"stop", "Run returns when all has ended, and Get says that the store was stopped", stopStore},
	}
}

// store runs a store of Secrets until the case ends.
func (s *suite) store() (store *objectcache.WatchStore[*corev1.Secret], stop func()) {
	store = newStore(s, objectcache.Secrets(s.client))
	return store, s.run(store)
}

// newStore returns a store with the options of the suite.
func newStore[T cache.Object](s *suite, resource objectcache.Resource[T]) *objectcache.WatchStore[T] {
	s.Helper()
	store, err := objectcache.NewWatchStore(resource, s.options())
	if err != nil {
		s.Fatal(err)
	}
	return store
}

// run runs a store or manager until the case ends, or until stop.
func (s *suite) run(runner interface{ Run(context.Context) error }) (stop func()) {
	return s.background(func(ctx context.Context) {
		if err := runner.Run(ctx); err != nil {
			s.Errorf("Run: got %v, want nil", err)
		}
	})
}

type secretStore = *objectcache.WatchStore[*corev1.Secret]

// get wants an object, with that value.
func (s *suite) get(store secretStore, name, value string) *corev1.Secret {
	s.Helper()
	secret, err := store.Get(s.ctx, s.namespace, name)
	if err != nil || valueOf(secret) != value {
		s.Fatalf("Get %s: got %q, %v, want %q", name, valueOf(secret), err, value)
	}
	return secret
}

// streams wants so many streams on the server.
func (s *suite) streams(when string, want int) {
	s.Helper()
	if err := s.WaitForStreams(s.ctx, want); err != nil {
		s.Fatalf("%s: %v, want %d streams", when, err, want)
	}
}

// follow returns a function that waits until Changes has reported that an object
// holds value, or that it is gone if value is empty.
func (s *suite) follow(store secretStore) (wait func(name, value string)) {
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
			if seen[change.Key.Name] = ""; !change.Deleted {
				seen[change.Key.Name] = valueOf(change.Object)
			}
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
		s.get(store, "tls", value)
		store.DeleteReference(s.namespace, "tls", "pod")
	}
}

func notFound(s *suite) {
	store, _ := s.store()
	store.AddReference(s.namespace, "tls", "pod")
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !apierrors.IsNotFound(err) {
		s.Errorf("absent: got %v, want NotFound", err)
	}
	wait := s.follow(store)
	s.create("tls", "1")
	wait("tls", "1")
	s.get(store, "tls", "1")
	s.remove("tls")
	wait("tls", "")
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !apierrors.IsNotFound(err) {
		s.Errorf("deleted: got %v, want NotFound", err)
	}
}

func notRegistered(s *suite) {
	store, _ := s.store()
	s.create("tls", "1")
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
		s.Errorf("got %v, want ErrNotRegistered", err)
	}
	s.streams("after it", 0)
}

func updates(s *suite) {
	store, _ := s.store()
	s.create("tls", "0")
	store.AddReference(s.namespace, "tls", "pod")
	s.get(store, "tls", "0")
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
			if version := s.number(secret.ResourceVersion); version < last {
				s.Errorf("version %d after %d", version, last)
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
	wait := s.follow(store)
	for i := range 50 {
		s.update("tls", fmt.Sprint(i+1))
	}
	wait("tls", "50")
	close(done)
	reader.Wait()
	s.get(store, "tls", "50")
}

func changes(s *suite) {
	store, _ := s.store()
	s.create("a", "0")
	for _, name := range []string{"a", "b"} {
		store.AddReference(s.namespace, name, "pod")
	}
	wait := s.follow(store)
	wait("a", "0")
	for i := range 3 {
		if err := s.Cut(s.ctx); err != nil {
			s.Fatal(err)
		}
		value := fmt.Sprint("after cut ", i)
		s.update("a", value)
		s.create("b", value)
		wait("a", value)
		wait("b", value)
		s.get(store, "b", value)
		s.remove("b")
		wait("b", "")
	}
}

func oneStream(s *suite) {
	store, _ := s.store()
	s.create("tls", "1")
	for range 2 {
		store.AddReference(s.namespace, "tls", "pod-1")
		store.AddReference(s.namespace, "tls", "pod-1")
		store.AddReference(s.namespace, "tls", "pod-2")
		s.get(store, "tls", "1")
		s.streams("two owners", 1)
		store.DeleteReference(s.namespace, "tls", "pod-1")
		store.DeleteReference(s.namespace, "tls", "pod-2")
		s.get(store, "tls", "1")
		s.streams("one owner", 1)
		store.DeleteReference(s.namespace, "tls", "pod-1")
		s.streams("no owner", 0)
	}
}

func immutableSettles(s *suite) {
	store, _ := s.store()
	s.create("tls", "1", immutable)
	store.AddReference(s.namespace, "tls", "pod")
	s.get(store, "tls", "1")
	s.streams("once synced", 0)
	s.get(store, "tls", "1")
}

func recreatedImmutable(s *suite) {
	store, _ := s.store()
	s.create("tls", "old", immutable)
	store.AddReference(s.namespace, "tls", "pod-1")
	s.get(store, "tls", "old")
	s.streams("once synced", 0)
	for i := range 5 {
		s.remove("tls")
		value := fmt.Sprint("new-", i)
		created := s.create("tls", value, immutable)
		store.AddReference(s.namespace, "tls", created.UID) // a new owner each time
		if got := s.get(store, "tls", value); got.UID != created.UID {
			s.Errorf("got UID %s, want %s", got.UID, created.UID)
		}
	}
	s.remove("tls")
	store.AddReference(s.namespace, "tls", "last")
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !apierrors.IsNotFound(err) {
		s.Errorf("a new owner after the deletion: got %v, want NotFound", err)
	}
}

func many(s *suite) {
	const count, first, limit = 100, 4, 32 // a gate begins with four, and opens more with each answer
	reads := newReads(first)
	store := newStore(s, objectcache.Secrets(s.connect(reads.of(s.Config))))
	s.run(store)
	var all sync.WaitGroup
	for i := range count {
		name := fmt.Sprint("tls-", i)
		s.create(name, name)
		all.Go(func() {
			store.AddReference(s.namespace, name, "pod")
			secret, err := store.Get(s.ctx, s.namespace, name)
			if err != nil || valueOf(secret) != name {
				s.Errorf("Get %s: got %q, %v", name, valueOf(secret), err)
			}
		})
	}
	all.Wait()
	s.streams("all referenced", count)
	if got := reads.atMost(); got < first || got > limit {
		s.Errorf("reads at a time: got %d, want %d to %d", got, first, limit)
	}
	for i := range count {
		store.DeleteReference(s.namespace, fmt.Sprint("tls-", i), "pod")
	}
	s.streams("none referenced", 0)
}

func stopStore(s *suite) {
	store, stop := s.store()
	s.create("tls", "1")
	store.AddReference(s.namespace, "tls", "pod")
	store.AddReference(s.namespace, "absent", "pod")
	s.get(store, "tls", "1")
	stop()
	s.streams("after Run", 0)
	if _, err := store.Get(s.ctx, s.namespace, "tls"); !errors.Is(err, objectcache.ErrStopped) {
		s.Errorf("got %v, want ErrStopped", err)
	}
}
