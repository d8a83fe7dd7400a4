// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// observed is the log of an observer.
type observed struct {
	mu    sync.Mutex
	lines []string
}

func (o *observed) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

// take empties the log and returns it.
func (o *observed) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := o.lines
	o.lines = nil
	return lines
}

func (o *observed) observer() Observer {
	return Observer{
		Write:        func(w Write) { o.add("%s %s %s %s", w.Type, w.Resource, w.Key, w.Object.GetResourceVersion()) },
		Request:      func(r Request) { o.add("%s %s %d", r.Verb, r.Name, r.Code) },
		Response:     func(r Request) { o.add("%s %s %d", r.Verb, r.Name, r.Code) },
		StreamOpened: func(r Request) { o.add("opened %s", r.Name) },
		StreamClosed: func(r Request) { o.add("closed %s", r.Name) },
	}
}

// TestObserve checks what an observer is notified of, and in which order.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		f.createSecret(newSecret("before"))
		var log observed
		f.Observe(log.observer())
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if got := log.take(); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		w := f.watchSecrets(named("a", watchList()))
		check("watch a 0", "opened a", "watch a 200")
		first := f.createSecret(newSecret("a"))
		check("create  0", "ADDED secrets default/a "+first.ResourceVersion, "create  201")
		second := f.updateSecret(first, "new")
		check("update a 0", "MODIFIED secrets default/a "+second.ResourceVersion, "update a 200")
		f.updateSecret(second, "new") // writes nothing
		check("update a 0", "update a 200")
		f.deleteSecret("a")
		check("delete a 0", "DELETED secrets default/a "+f.ResourceVersion(), "delete a 200")
		f.Intercept(always(apierrors.NewTooManyRequests("busy", 0)))
		_, _ = f.client.CoreV1().Secrets("default").List(t.Context(), named("b", metav1.ListOptions{}))
		check("list b 0", "list b 429")
		f.Intercept(nil)
		w.Stop()
		check("closed a")
		f.Observe(Observer{})
		f.createSecret(newSecret("after"))
		check()
	})
}

// TestObserveWritesInOrder checks that writes are observed once, in the order of versions, before a client can read
// their result.
func TestObserveWritesInOrder(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			var mu sync.Mutex
			var versions []uint64
			known := map[string]string{} // value by version
			f.Observe(Observer{Write: func(w Write) {
				mu.Lock()
				defer mu.Unlock()
				version, err := strconv.ParseUint(w.Object.GetResourceVersion(), 10, 64)
				if err != nil {
					t.Error(err)
				}
				versions = append(versions, version)
				known[w.Object.GetResourceVersion()] = string(w.Object.(*corev1.Secret).Data["key"])
			}})
			w := f.watchSecrets(metav1.ListOptions{ResourceVersion: f.ResourceVersion()})
			const writers, rounds = 4, 10
			var writing errgroup.Group
			for i := range writers {
				writing.Go(func() error {
					return churn(t.Context(), newClientFor(t, separateConfig(f.Server)).CoreV1().Secrets("default"), fmt.Sprint("s", i), rounds)
				})
			}
			const writes = writers * (3*rounds - 1)
			for range writes {
				event := <-w.ResultChan()
				secret := event.Object.(*corev1.Secret)
				mu.Lock()
				value, ok := known[secret.ResourceVersion]
				mu.Unlock()
				if !ok || event.Type != watch.Deleted && value != string(secret.Data["key"]) {
					t.Errorf("got %s of %s with %q, observed %v %q", event.Type, secret.Name, secret.Data["key"], ok, value)
				}
			}
			check(t, writing.Wait())
			mu.Lock()
			defer mu.Unlock()
			if len(versions) != writes {
				t.Errorf("got %d writes, want %d", len(versions), writes)
			}
			for i := range versions[1:] {
				if versions[i+1] != versions[i]+1 {
					t.Errorf("got version %d after %d", versions[i+1], versions[i])
				}
			}
		})
	}
}
