// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

var errNotGranted = errors.New("nobody granted it")

// denying returns a policy that denies some names to all owners.
func denying(denied ...string) manager.ReferencePolicy {
	return func(_ manager.Owner, key types.NamespacedName) error {
		if slices.Contains(denied, key.Name) {
			return errNotGranted
		}
		return nil
	}
}

// A policy decides which references count. Each change of it adds what is permitted by now, and deletes what is denied.
func TestReferencePolicy(t *testing.T) {
	store := &callStore{}
	m := newManager(t, store, manager.VisitPodSecretNames)
	gateway, job := manager.Owner{Kind: "Gateway", Name: "public"}, manager.Owner{Kind: "Job", Name: "once"}
	toWeb := func(owner manager.Owner, key types.NamespacedName) error {
		if key.Name == "shared" && owner.Kind != "Gateway" {
			return errNotGranted
		}
		return nil
	}
	toJob := func(owner manager.Owner, key types.NamespacedName) error {
		if key.Name == "shared" && owner.Kind != "Job" {
			return errNotGranted
		}
		return nil
	}
	steps := []struct {
		name string
		call func()
		want string
	}{
		{"before the owners", func() { m.SetReferencePolicy(denying("b", "c")) }, ""},
		{"set", func() { m.SetReferences(gateway, key("a"), key("b"), key("c")) }, "add a"},
		{"again", func() { m.SetReferences(gateway, key("a"), key("b"), key("c")) }, ""},
		{"permitted", func() { m.SetReferencePolicy(denying("c")) }, "add b"},
		{"denied", func() { m.SetReferencePolicy(denying("b")) }, "add c, delete b"},
		{"all denied", func() { m.SetReferencePolicy(denying("a", "b", "c")) }, "delete a, delete c"},
		{"permitted again", func() { m.SetReferencePolicy(denying("a", "b")) }, "add c"},
		{"other keys", func() { m.SetReferences(gateway, key("b"), key("d")) }, "add d, delete c"},
		{"removed", func() { m.SetReferences(gateway) }, "delete d"},
		{"a removed owner is forgotten", func() { m.SetReferencePolicy(nil) }, ""},
		{"no policy", func() { m.SetReferences(gateway, key("b")) }, "add b"},
		{"denied later", func() { m.SetReferencePolicy(denying("b")) }, "delete b"},
		{"policy removed", func() { m.SetReferencePolicy(nil) }, "add b"},
		{"moved to another owner", func() {
			m.SetReferencePolicy(toWeb)
			m.SetReferences(gateway, key("shared"))
			m.SetReferences(job, key("shared"))
			store.calls = nil
			m.SetReferencePolicy(toJob)
		}, "add shared, delete shared"},
		{"moved back", func() { m.SetReferencePolicy(toWeb) }, "add shared, delete shared"},
		{"pod", func() { m.SetReferencePolicy(denying("a")); m.RegisterPod(podOf("p", "a", "b")) }, "add shared, add b"},
		{"pod gone", func() { m.UnregisterPod(podOf("p")) }, "delete b"},
	}
	for _, step := range steps {
		store.calls = nil
		step.call()
		if got := strings.Join(store.calls, ", "); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
	}
}

// An owner whose references are all denied is still an owner. What it references are those that count.
func TestOwnerWithoutPermittedReferences(t *testing.T) {
	m := newManager(t, newCountingStore(t), nil)
	gateway := manager.Owner{Kind: "Gateway", Name: "public"}
	m.SetReferencePolicy(denying("a", "b"))
	m.SetReferences(gateway, key("a"), key("b"))
	if got := slices.Collect(m.Owners()); len(got) != 1 || got[0] != gateway {
		t.Errorf("Owners: got %v, want the gateway", got)
	}
	if got := m.References(gateway); len(got) > 0 {
		t.Errorf("References: got %v, want none", got)
	}
	m.SetReferencePolicy(denying("a"))
	if got := m.References(gateway); len(got) != 1 || got[0] != key("b") {
		t.Errorf("References: got %v, want b", got)
	}
	if owners := m.OwnersOf("default", "a"); len(owners) > 0 {
		t.Errorf("OwnersOf(a): got %v, want none", owners)
	}
	m.SetReferencePolicy(denying("a", "b"))
	if err := m.WaitForOwner(t.Context(), gateway); err != nil || !m.OwnerHasSynced(gateway) {
		t.Errorf("denied: got WaitForOwner %v and OwnerHasSynced %t, want neither to wait", err, m.OwnerHasSynced(gateway))
	}
}

// CheckReference tells a denied reference from one that was never declared, for each owner alone.
func TestCheckReference(t *testing.T) {
	m := newManager(t, newCountingStore(t), nil)
	public, internal := manager.Owner{Kind: "Gateway", Namespace: "infra", Name: "public", UID: "1"}, manager.Owner{UID: "2"}
	m.SetReferencePolicy(func(owner manager.Owner, _ types.NamespacedName) error {
		if owner == public {
			return errNotGranted
		}
		return nil
	})
	m.SetReferences(public, key("tls"))
	m.SetReferences(internal, key("tls"))
	if err := m.CheckReference(internal, "default", "tls"); err != nil {
		t.Errorf("permitted: got %v", err)
	}
	for _, owner := range []manager.Owner{public, public, {UID: "1"}, {Kind: "Gateway", Namespace: "infra", Name: "public"}} {
		err := m.CheckReference(owner, "default", "tls")
		if !errors.Is(err, manager.ErrReferenceDenied) || !errors.Is(err, errNotGranted) || errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("denied: got %v, want ErrReferenceDenied with the reason", err)
		}
	}
	denied := m.CheckReference(public, "default", "tls")
	if want := `reference denied: Gateway "infra/public" to "default/tls": nobody granted it`; denied.Error() != want {
		t.Errorf("denied: got %q, want %q", denied, want)
	}
	for owner, want := range map[manager.Owner]string{
		internal:                        `owner "2" does not reference "default/other": register it, or set its references`,
		{Kind: "Gateway", Name: "none"}: `Gateway "none" does not reference "default/other": register it, or set its references`,
		{}:                              `owner "" does not reference "default/other": register it, or set its references`,
	} {
		err := m.CheckReference(owner, "default", "other")
		if !errors.Is(err, objectcache.ErrNotRegistered) || errors.Is(err, manager.ErrReferenceDenied) || err.Error() != want {
			t.Errorf("not referenced: got %v, want ErrNotRegistered and %q", err, want)
		}
	}
}

// A policy that panics denies the reference. The text does not quote the value.
func TestPolicyThatPanics(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, nil)
	m.SetReferencePolicy(func(manager.Owner, types.NamespacedName) error { panic("s3cret") })
	owner := manager.Owner{Name: "web"}
	m.SetReferences(owner, key("tls"))
	err := m.CheckReference(owner, "default", "tls")
	if !errors.Is(err, manager.ErrReferenceDenied) || strings.Contains(err.Error(), "s3cret") || store.references() != "" {
		t.Errorf("got %v and references %q, want a denial without the value", err, store.references())
	}
	m.SetReferencePolicy(nil) // no lock is held
	if err := m.CheckReference(owner, "default", "tls"); err != nil {
		t.Errorf("without the policy: got %v", err)
	}
}

// The reason of a policy is kept for each reference: a long one in part.
func TestPolicyWithALongReason(t *testing.T) {
	m := newManager(t, newCountingStore(t), nil)
	reason := errors.New("the reason")
	m.SetReferencePolicy(func(manager.Owner, types.NamespacedName) error {
		return fmt.Errorf("%s: %w", strings.Repeat("no ", 10000), reason)
	})
	owner := manager.Owner{Name: "web"}
	m.SetReferences(owner, key("tls"))
	err := m.CheckReference(owner, "default", "tls")
	if !errors.Is(err, manager.ErrReferenceDenied) || !errors.Is(err, reason) || len(err.Error()) > 5000 {
		t.Errorf("got %d bytes: %.100s, want the denial, its reason and some 4 kB", len(err.Error()), err)
	}
}

// A policy that ends its goroutine leaves no reference behind that is never deleted.
func TestPolicyThatExits(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, nil)
	for _, name := range []string{"a", "b", "c"} {
		m.SetReferences(manager.Owner{Name: name}, key("tls"))
	}
	calls := 0
	var exits sync.WaitGroup
	exits.Go(func() {
		m.SetReferencePolicy(func(manager.Owner, types.NamespacedName) error {
			if calls++; calls == 3 {
				runtime.Goexit()
			}
			return errNotGranted
		})
	})
	exits.Wait()
	m.SetReferencePolicy(denying("tls"))
	if got := store.references(); got != "" {
		t.Errorf("all denied: got references %q, want none", got)
	}
}

// newServer returns a server with a Secret.
func newServer(t *testing.T, name string) *apiserver.Server {
	t.Helper()
	server := apiserver.New(t, apiserver.Options{InMemory: true})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return server
}

// A denial shows nothing of the object: the answer is the same whether it exists, and no request is sent for it.
// Another owner gets it.
func TestDenialShowsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, "there")
		m, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer run(t.Context(), t, m)()
		attacker, owner := manager.Owner{Kind: "Gateway", Name: "attacker"}, manager.Owner{Kind: "Gateway", Name: "owner"}
		m.SetReferencePolicy(func(o manager.Owner, _ types.NamespacedName) error {
			if o == attacker {
				return errNotGranted
			}
			return nil
		})
		requests := len(server.Requests())
		m.SetReferences(attacker, key("there"), key("missing"))
		deniedAs := func(name string) string {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := m.GetFor(ctx, attacker, "default", name)
			if !errors.Is(err, manager.ErrReferenceDenied) || apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, want a denial", name, err)
			}
			return strings.ReplaceAll(fmt.Sprint(err, time.Since(began)), name, "NAME")
		}
		if there, missing := deniedAs("there"), deniedAs("missing"); there != missing {
			t.Errorf("got %q and %q, want the same", there, missing)
		}
		if got := len(server.Requests()) - requests; got != 0 {
			t.Errorf("requests: got %d, want 0", got)
		}
		m.SetReferences(owner, key("there"), key("missing"))
		if got, err := m.GetFor(t.Context(), owner, "default", "there"); err != nil || got.Name != "there" {
			t.Errorf("its owner: got %v, %v, want the Secret", got, err)
		}
		if _, err := m.GetFor(t.Context(), owner, "default", "missing"); !apierrors.IsNotFound(err) {
			t.Errorf("its owner: got %v, want NotFound", err)
		}
		if there, missing := deniedAs("there"), deniedAs("missing"); there != missing { // in memory by now
			t.Errorf("got %q and %q, want the same", there, missing)
		}
		server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil })
		m.SetReferences(attacker, key("there"), key("hanging"))
		m.SetReferences(owner, key("there"), key("hanging"))
		if there, hanging := deniedAs("there"), deniedAs("hanging"); there != hanging {
			t.Errorf("got %q and %q, want the same", there, hanging)
		}
	})
}

// A reference that is denied while GetFor waits for the object gets a denial, also if another owner keeps the object.
func TestDenialDuringGetFor(t *testing.T) {
	for name, others := range map[string]bool{"last reference": false, "another owner": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t, "tls")
				release := make(chan struct{})
				server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
					select {
					case <-release:
					case <-ctx.Done():
					}
					return nil
				})
				m, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{AcquireOnGet: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				defer run(t.Context(), t, m)()
				web, other := manager.Owner{Name: "web"}, manager.Owner{Name: "other"}
				m.SetReferences(web, key("tls"))
				if others {
					m.SetReferences(other, key("tls"))
				}
				failed := make(chan error, 1)
				go func() {
					_, err := m.GetFor(t.Context(), web, "default", "tls")
					failed <- err
				}()
				synctest.Wait()
				m.SetReferencePolicy(func(o manager.Owner, _ types.NamespacedName) error {
					if o == web {
						return errNotGranted
					}
					return nil
				})
				close(release)
				if err := <-failed; !errors.Is(err, manager.ErrReferenceDenied) {
					t.Errorf("got %v, want ErrReferenceDenied", err)
				}
				if held := m.Stats().Objects > 0; held != others {
					t.Errorf("the object is held: got %t, want %t", held, others)
				}
			})
		})
	}
}

// Whatever is called in whatever order, the store counts the references that are declared and permitted.
func TestPolicyProperties(t *testing.T) {
	owners, names := rapid.SampledFrom([]string{"x", "y", "z"}), rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3)
	pair := rapid.SampledFrom([]string{"x a", "x b", "x c", "y a", "y b", "y c", "z a", "z b", "z c"})
	rapid.Check(t, func(t *rapid.T) {
		store := newCountingStore(t)
		m := newManager(t, store, nil)
		declared, denied := map[string][]string{}, map[string]bool{}
		policy := func(o manager.Owner, key types.NamespacedName) error {
			if denied[o.Name+" "+key.Name] {
				return errNotGranted
			}
			return nil
		}
		m.SetReferencePolicy(policy)
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				owner, drawn := owners.Draw(t, "owner"), names.Draw(t, "names")
				var keys []types.NamespacedName
				for _, name := range drawn {
					keys = append(keys, key(name))
				}
				declared[owner] = drawn
				m.SetReferences(manager.Owner{Namespace: "ns", Name: owner}, keys...)
			},
			"change the policy": func(t *rapid.T) {
				changed := pair.Draw(t, "pair")
				denied[changed] = !denied[changed]
				m.SetReferencePolicy(policy)
			},
			"": func(t *rapid.T) {
				want := map[string]bool{}
				for owner, names := range declared {
					for _, name := range names {
						if !denied[owner+" "+name] {
							want["default/"+name+" ns/"+owner] = true
						}
					}
				}
				if got, want := store.references(), strings.Join(slices.Sorted(maps.Keys(want)), ", "); got != want {
					t.Errorf("references: got %q, want %q", got, want)
				}
			},
		})
	})
}
