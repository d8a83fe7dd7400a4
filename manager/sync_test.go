// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// inBubble runs f with a manager that is running. The server answers after 10 ms, and
// refuses objects whose names begin with "forbidden".
func inBubble(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *manager.Manager[*corev1.Secret], *apiserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			time.Sleep(10 * time.Millisecond)
			if strings.HasPrefix(request.Name, "forbidden") {
				return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
			}
			return nil
		})
		client, err := manager.ClientFor(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		m, err := manager.NewSecrets(client, options)
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t.Context(), t, m)
		f(t, m, server)
		stop()
	})
}

// waitTook returns how long a wait took, and its error.
func waitTook(wait func() error) (time.Duration, error) {
	began := time.Now()
	err := wait()
	return time.Since(began), err
}

// WaitForSync waits for the given keys, or for all that are referenced; WaitForOwner for
// those of an owner. HasSynced and OwnerHasSynced agree.
func TestWaitForSync(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], server *apiserver.Server) {
		good, bad := manager.Owner{Kind: "Ingress", Namespace: "default", Name: "good", UID: "1"}, manager.Owner{Kind: "Ingress", Namespace: "default", Name: "bad"}
		check := func(when string, wait func() error, hasSynced bool, want bool, is func(error) bool) {
			t.Helper()
			took, err := waitTook(wait)
			if took > 3*time.Second || (err == nil) != want || err != nil && !is(err) || hasSynced != want {
				t.Errorf("%s: got %v after %v, and HasSynced %v, want %v within 3 s", when, err, took, hasSynced, want)
			}
		}
		ctx := t.Context()
		check("nothing is referenced", func() error { return m.WaitForSync(ctx) }, m.HasSynced(), true, nil)
		notRegistered := func(err error) bool { return errors.Is(err, objectcache.ErrNotRegistered) }
		check("a key without references", func() error { return m.WaitForSync(ctx, key("a")) }, m.HasSynced(key("a")), false, notRegistered)
		check("an unknown owner", func() error { return m.WaitForOwner(ctx, good) }, m.OwnerHasSynced(good), true, nil)
		m.SetReferences(good, key("a"), key("b"))
		if m.HasSynced() || m.HasSynced(key("a")) || m.OwnerHasSynced(good) {
			t.Error("HasSynced before the first read: got true, want false")
		}
		if err := m.WaitForSync(ctx); err != nil {
			t.Errorf("all: got %v, want nil", err)
		}
		check("all again", func() error { return m.WaitForSync(ctx) }, m.HasSynced(), true, nil)
		m.SetReferences(bad, key("forbidden"), key("c"))
		check("an owner", func() error { return m.WaitForOwner(ctx, manager.Owner{UID: "1"}) }, m.OwnerHasSynced(manager.Owner{UID: "1"}), true, nil)
		check("a key", func() error { return m.WaitForSync(ctx, key("a")) }, m.HasSynced(key("a")), true, nil)
		check("all, one refused", func() error { return m.WaitForSync(ctx) }, m.HasSynced(), false, apierrors.IsForbidden)
		check("an owner, one refused", func() error { return m.WaitForOwner(ctx, bad) }, m.OwnerHasSynced(bad), false, apierrors.IsForbidden)
		check("its other key", func() error { return m.WaitForSync(ctx, key("c")) }, m.HasSynced(key("c")), true, nil)
		var none context.Context
		for _, err := range []error{m.WaitForSync(none), m.WaitForOwner(none, good)} {
			if !errors.Is(err, objectcache.ErrNilContext) {
				t.Errorf("nil context: got %v, want ErrNilContext", err)
			}
		}
	})
}

// An owner that is removed during the wait for all does not fail it; one that waits for
// its own objects is informed.
func TestWaitForSyncWhileAnOwnerIsRemoved(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], server *apiserver.Server) {
		hang := make(chan struct{})
		server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { <-hang; return nil })
		pod := podOf("1", "a")
		m.RegisterPod(pod)
		all, own := make(chan error, 1), make(chan error, 1)
		go func() { all <- m.WaitForSync(t.Context()) }()
		go func() { own <- m.WaitForOwner(t.Context(), manager.Owner{UID: "1"}) }()
		synctest.Wait()
		m.UnregisterPod(pod)
		if err := <-all; err != nil {
			t.Errorf("WaitForSync: got %v, want nil", err)
		}
		if err := <-own; !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("WaitForOwner: got %v, want ErrNotRegistered", err)
		}
		close(hang)
	})
}

// HasSynced opens no stream, takes no lease, and keeps nothing in memory.
func TestHasSyncedDisturbsNothing(t *testing.T) {
	options := objectcache.WatchOptions{AcquireOnGet: time.Hour, IdleTimeout: time.Minute}
	inBubble(t, options, func(t *testing.T, m *manager.Manager[*corev1.Secret], server *apiserver.Server) {
		if m.HasSynced(key("unreferenced")) {
			t.Error("a key without references: got true, want false")
		}
		m.SetReferences(manager.Owner{Kind: "Ingress", Name: "web"}, key("a"), key("forbidden"))
		for range 100 { // until both objects were idle long since, had they not been refused
			time.Sleep(10 * time.Second)
			_ = m.HasSynced(key("a"), key("forbidden"), key("unreferenced"))
		}
		status, _ := m.Status("default", "a")
		if _, ok := m.Status("default", "unreferenced"); ok || status.Phase != objectcache.PhaseIdle {
			t.Errorf("got a reference %v and phase %s, want none and Idle", ok, status.Phase)
		}
		requests := map[string]int{}
		for _, request := range server.Requests() {
			requests[request.Name]++
		}
		if requests["unreferenced"] != 0 || requests["a"] != 1 || requests["forbidden"] > 1000/7 {
			t.Errorf("requests: got %v, want one of a, and those of the back-off of forbidden", requests)
		}
	})
}

// 1,000 owners reference objects in another namespace than their own. Changes yields
// each first state with its owner, and WaitForSync returns when all have synced.
func TestThousandOwnersInOtherNamespaces(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], server *apiserver.Server) {
		const count = 1000
		want := map[manager.Owner]types.NamespacedName{}
		for i := range count {
			owner := manager.Owner{Kind: "Gateway", Namespace: fmt.Sprint("infra-", i%7), Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint("uid-", i))}
			name := fmt.Sprint("absent-", i)
			if i%10 == 0 {
				name = fmt.Sprint("forbidden-", i)
			}
			want[owner] = types.NamespacedName{Namespace: "certificates", Name: name}
			m.SetReferences(owner, want[owner])
		}
		if took, err := waitTook(func() error { return m.WaitForSync(t.Context()) }); took > 5*time.Second || !apierrors.IsForbidden(err) {
			t.Errorf("WaitForSync: got %v after %v, want the refusals within 5 s", err, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for change, owners := range m.Changes(ctx) {
			if len(owners) != 1 || want[owners[0]] != change.Key {
				t.Errorf("%s: got the owners %v, want the one that references it", change.Key, owners)
				continue
			}
			if refused := strings.HasPrefix(change.Key.Name, "forbidden"); refused != apierrors.IsForbidden(change.Err) || refused == apierrors.IsNotFound(change.Err) {
				t.Errorf("%s: got %v, want its first state", change.Key, change.Err)
			}
			if got := m.OwnersOf(change.Key.Namespace, change.Key.Name); len(got) != 1 || got[0] != owners[0] {
				t.Errorf("OwnersOf %s: got %v, want %v", change.Key, got, owners)
			}
			if delete(want, owners[0]); len(want) == 0 {
				break
			}
		}
		if len(want) > 0 {
			t.Errorf("got no first state for %d of %d owners", len(want), count)
		}
	})
}

// Run, Get and the waits may have one context. At its end all say why the objects did not sync.
func TestOneContextForRunAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		client, err := manager.ClientFor(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		m, err := manager.NewSecrets(client, objectcache.WatchOptions{RefusalGrace: -1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		pod := podOf("pod", "tls", "other")
		m.RegisterPod(pod)
		waits := map[string]func() error{
			"Get": func() error {
				_, err := m.Get(ctx, "default", "tls")
				return err
			},
			"WaitForSync": func() error { return m.WaitForSync(ctx) },
			"WaitForOwner": func() error {
				return m.WaitForOwner(ctx, manager.Owner{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID})
			},
		}
		for when := range map[string]bool{"waiting": true, "later": true} {
			errs := map[string]error{}
			for name, wait := range waits {
				errs[name] = wait()
			}
			for name, err := range errs {
				if !errors.Is(err, objectcache.ErrStopped) || !errors.Is(err, context.DeadlineExceeded) || !apierrors.IsForbidden(err) {
					t.Errorf("%s %s: got %v, want ErrStopped, DeadlineExceeded and Forbidden", when, name, err)
				}
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}
