// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// mixed are stores of two kinds with one Gate. The server answers each request after 20 ms, and those for objects whose
// name begins with "bad" in another way. None of the objects exists.
type mixed struct {
	t          *testing.T
	server     *apiserver.Server
	gate       *objectcache.Gate
	secrets    objectcache.Store[*corev1.Secret]
	configMaps objectcache.Store[*corev1.ConfigMap]
	gets       sync.WaitGroup

	mu      sync.Mutex
	slowest time.Duration // Get of a good object
}

// inMixed runs f in a bubble, with stores that are running.
func inMixed(t *testing.T, options func(*objectcache.Gate) objectcache.StoreOptions, bad apiserver.Interceptor, f func(*mixed)) {
	t.Helper()
	manyStreams(t)
	synctest.Test(t, func(t *testing.T) {
		m := &mixed{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true}), gate: objectcache.NewGate(objectcache.GateOptions{})}
		m.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			over, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			<-over.Done()
			if strings.HasPrefix(request.Name, "bad") {
				return bad(ctx, request)
			}
			return nil
		})
		config := m.server.Config()
		config.QPS = -1
		client, err := kubernetes.NewForConfig(resource.ConfigFor(config))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		m.secrets = startStore(ctx, t, resource.Secrets(client), options(m.gate), &running)
		m.configMaps = startStore(ctx, t, resource.ConfigMaps(client), options(m.gate), &running)
		synctest.Wait()
		f(m)
		cancel()
		running.Wait()
		m.gets.Wait()
	})
}

func startStore[T cache.Object](
	ctx context.Context, t *testing.T, resource resource.Resource[T], options objectcache.StoreOptions, running *sync.WaitGroup,
) objectcache.Store[T] {
	store, err := objectcache.NewStore(resource, options)
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = store.Run(ctx) })
	return store
}

// add references the nth object, a ConfigMap or a Secret in turn. If a caller waits, it gets the object until it is
// read.
func (m *mixed) add(n int, isGood, isAwaited bool) {
	name := fmt.Sprint("bad-", n)
	if isGood {
		name = fmt.Sprint("good-", n)
	}
	if n%2 == 0 {
		addTo(m, m.secrets, name, isGood, isAwaited)
	} else {
		addTo(m, m.configMaps, name, isGood, isAwaited)
	}
}

func addTo[T cache.Object](m *mixed, store objectcache.Store[T], name string, isGood, isAwaited bool) {
	store.AddReference(namespace, name, "pod")
	if isAwaited {
		m.gets.Go(func() { getUntilRead(m, store, name, isGood) })
	}
}

// getUntilRead gets an object, for two seconds each, until it is read or the store ends, and records how long it took.
func getUntilRead[T cache.Object](m *mixed, store objectcache.Store[T], name string, isGood bool) {
	began := time.Now()
	for m.t.Context().Err() == nil {
		ctx, cancel := context.WithTimeout(m.t.Context(), 2*time.Second)
		_, err := store.Get(ctx, namespace, name)
		cancel()
		if apierrors.IsNotFound(err) {
			break
		}
		if status, _ := store.Status(namespace, name); status.Phase == objectcache.PhaseStopped || time.Since(began) > 20*time.Second {
			break
		}
		pause, cancel := context.WithTimeout(m.t.Context(), 100*time.Millisecond)
		<-pause.Done()
		cancel()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if isGood {
		m.slowest = max(m.slowest, time.Since(began))
	}
}

// unread returns how many good objects of a store were referenced for longer than a time and have not been read.
func unread[T cache.Object](store objectcache.Store[T]) (names []string) {
	for status := range store.Statuses() {
		if strings.HasPrefix(status.Key.Name, "good") && status.LastContact.IsZero() {
			names = append(names, status.Key.Name)
		}
	}
	return names
}

// hang never answers.
func hang(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil }

func answering(err *apierrors.StatusError) apiserver.Interceptor {
	return func(context.Context, apiserver.Request) *metav1.Status { return &err.ErrStatus }
}

// Objects of two kinds are referenced one by one, 1,000 in all. The server does not serve most of those that come
// later. The others are read within a second if a Get waits, else within five.
func TestArrivalsBesideObjectsThatAreNotServed(t *testing.T) {
	crowd(t)
	if blockingStreams {
		t.Skip("a goroutine for each stream makes no difference here")
	}
	watch := func(gate *objectcache.Gate) objectcache.StoreOptions { return objectcache.WatchOptions{Gate: gate} }
	ttl := func(gate *objectcache.Gate) objectcache.StoreOptions { return objectcache.TTLOptions{Gate: gate} }
	for name, test := range map[string]struct {
		options func(*objectcache.Gate) objectcache.StoreOptions
		bad     apiserver.Interceptor
		of      int // one of so many is served
	}{
		"watch, half get a 429":        {watch, answering(apierrors.NewTooManyRequestsError("slow down")), 2},
		"watch, 95 % get a 503":        {watch, answering(unavailable()), 20},
		"watch, 95 % hang":             {watch, hang, 20},
		"TTL, 80 % get a 429 for 30 s": {ttl, answering(apierrors.NewTooManyRequests("slow down", 30)), 5},
		"TTL, 99 % hang":               {ttl, hang, 100},
	} {
		t.Run(name, func(t *testing.T) {
			inMixed(t, test.options, test.bad, func(m *mixed) { m.arrive(test.of, strings.HasPrefix(name, "TTL")) })
		})
	}
}

func (m *mixed) arrive(of int, onlyGets bool) {
	const before, count, gap, late = 400, 600, 100 * time.Millisecond, 5 * time.Second
	for n := range before {
		m.add(n, true, true)
	}
	time.Sleep(10 * time.Second)
	if len(unread(m.secrets))+len(unread(m.configMaps)) > 0 {
		m.t.Fatal("the first objects are not read after ten seconds")
	}
	m.mu.Lock()
	m.slowest = 0
	m.mu.Unlock()
	pending := map[string]time.Time{}
	slowest := time.Duration(0)
	began, requests := time.Now(), len(m.server.Requests())
	for n := range count {
		group := n / 2 / of // of of Secrets, and as many ConfigMaps
		isGood, isAwaited := n/2%of == 0, group%2 == 0 || onlyGets
		m.add(before+n, isGood, isAwaited)
		if isGood && !isAwaited {
			pending[fmt.Sprint("good-", before+n)] = time.Now()
		}
		time.Sleep(gap)
		if n%5 == 0 || n == count-1 {
			still := map[string]time.Time{}
			for _, name := range append(unread(m.secrets), unread(m.configMaps)...) {
				if since, ok := pending[name]; ok {
					still[name] = since
					slowest = max(slowest, time.Since(since))
				}
			}
			pending = still
		}
	}
	rate := float64(len(m.server.Requests())-requests) / time.Since(began).Seconds()
	time.Sleep(20 * time.Second)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.t.Logf("MEASURED slowest Get %v, slowest without a Get %v, %.0f requests a second", m.slowest, slowest, rate)
	if m.slowest > time.Second || slowest > late || rate > 200 {
		m.t.Errorf("good objects: got the slowest Get after %v, others after %v, %.0f requests a second; want at most 1 s, %v and 200",
			m.slowest, slowest, rate, late)
	}
}
