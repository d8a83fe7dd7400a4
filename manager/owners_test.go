// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Any identity of an owner finds its references, and forgets it.
func TestOwnersAreFoundByAnyIdentity(t *testing.T) {
	const kind, namespace, name, uid = "Gateway", "infra", "web", types.UID("1")
	all := manager.Owner{Kind: kind, Namespace: namespace, Name: name, UID: uid}
	tests := map[string]struct {
		declared, asked manager.Owner
		found           bool
	}{
		"all of them":                           {all, all, true},
		"UID":                                   {all, manager.Owner{UID: uid}, true},
		"kind, namespace and name":              {all, manager.Owner{Kind: kind, Namespace: namespace, Name: name}, true},
		"UID of a renamed owner":                {all, manager.Owner{Kind: kind, Namespace: "new", Name: "new", UID: uid}, true},
		"all, declared without UID":             {manager.Owner{Kind: kind, Namespace: namespace, Name: name}, all, true},
		"all, declared with UID only":           {manager.Owner{UID: uid}, all, true},
		"name only":                             {all, manager.Owner{Name: name}, false},
		"namespace and name":                    {all, manager.Owner{Namespace: namespace, Name: name}, false},
		"namespace and name, declared likewise": {manager.Owner{Namespace: namespace, Name: name, UID: uid}, manager.Owner{Namespace: namespace, Name: name}, true},
		"name only, declared likewise":          {manager.Owner{Name: name, UID: uid}, manager.Owner{Name: name}, true},
		"another UID":                           {all, manager.Owner{Kind: kind, Namespace: namespace, Name: name, UID: "2"}, false},
		"another namespace":                     {all, manager.Owner{Kind: kind, Namespace: "other", Name: name}, false},
		"another kind":                          {all, manager.Owner{Kind: "Ingress", Namespace: namespace, Name: name}, false},
		"nothing":                               {all, manager.Owner{}, false},
	}
	for test, c := range tests {
		t.Run(test, func(t *testing.T) {
			store := newCountingStore(t)
			m := newManager(t, store, nil)
			m.SetReferences(c.declared, types.NamespacedName{Namespace: "b", Name: "a"}, types.NamespacedName{Namespace: "a", Name: "z"})
			if got := fmt.Sprint(m.References(c.asked)); (got == "[a/z b/a]") != c.found || !c.found && got != "[]" {
				t.Errorf("references: got %s, want them: %v", got, c.found)
			}
			if got := slices.Collect(m.Owners()); !slices.Equal(got, []manager.Owner{c.declared}) {
				t.Errorf("owners: got %v, want %v", got, c.declared)
			}
			m.SetReferences(c.asked)
			if left := store.references(); (left == "") != c.found {
				t.Errorf("left after SetReferences without keys: got %q, want the owner forgotten: %v", left, c.found)
			}
			if got := len(slices.Collect(m.Owners())); (got == 0) != c.found {
				t.Errorf("owners in the end: got %d, want the owner forgotten: %v", got, c.found)
			}
		})
	}
}

// Owners are sorted, and those of one name are merged if it is all that is asked for. The
// caller may change what it gets, and call the manager in the loop.
func TestOwnersAndReferences(t *testing.T) {
	m := newManager(t, newCountingStore(t), manager.VisitPodSecretNames)
	for uid, secrets := range map[types.UID][]string{"1": {"a", "b"}, "2": {"b", "c"}, "3": nil} {
		pod := podOf(uid, secrets...)
		pod.Name = "web"
		m.RegisterPod(pod)
	}
	m.SetReferences(manager.Owner{Kind: "Ingress", Namespace: "default", Name: "web"}, key("z"))
	if got, want := fmt.Sprint(slices.Collect(m.Owners())), "[{Ingress default web } {Pod default web 1} {Pod default web 2}]"; got != want {
		t.Errorf("owners: got %s, want %s", got, want)
	}
	web := manager.Owner{Kind: "Pod", Namespace: "default", Name: "web"}
	got := m.References(web)
	if fmt.Sprint(got) != "[default/a default/b default/c]" {
		t.Errorf("references by name: got %v, want a, b and c", got)
	}
	got[0] = key("changed")
	if got := m.References(manager.Owner{UID: "1"}); fmt.Sprint(got) != "[default/a default/b]" {
		t.Errorf("references by UID: got %v, want a and b", got)
	}
	for owner := range m.Owners() {
		m.SetReferences(owner)
		break
	}
	for owner := range m.Owners() {
		m.SetReferences(owner)
	}
	if got := slices.Collect(m.Owners()); len(got) > 0 {
		t.Errorf("owners in the end: got %v, want none", got)
	}
}

// A manager has the status, the permissions and every Get of its store.
func TestManagerPassesThrough(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], _ *apiserver.Server) {
		gateway := manager.Owner{Kind: "Gateway", Namespace: "infra", Name: "web"}
		invalid := types.NamespacedName{Namespace: "other", Name: "In valid"}
		m.SetReferences(gateway, key("a"), types.NamespacedName{Namespace: "other", Name: "b"}, invalid)
		if _, err := m.TryGet("default", "a"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("TryGet: got %v, want ErrNotSynced", err)
		}
		if _, err := m.GetWithOptions(t.Context(), "default", "a", objectcache.GetOptions{NotOlderThan: "x"}); err == nil || !strings.Contains(err.Error(), "NotOlderThan") {
			t.Errorf("GetWithOptions: got %v, want the error of an invalid option", err)
		}
		if _, err := m.GetWithOptions(nil, "default", "a", objectcache.GetOptions{}); !errors.Is(err, objectcache.ErrNilContext) { //nolint:staticcheck // a nil context is the test
			t.Errorf("GetWithOptions: got %v, want ErrNilContext", err)
		}
		if err := m.WaitForSync(t.Context()); err != nil {
			t.Fatalf("WaitForSync: got %v, want nil", err)
		}
		if status, ok := m.Status("default", "a"); !ok || !status.Synced || status.Exists {
			t.Errorf("Status: got %+v, want a synced, absent object", status)
		}
		count := 0
		for range m.Statuses() {
			count++
		}
		if count != 3 {
			t.Errorf("Statuses: got %d, want 3", count)
		}
		if got := m.OwnersOf("default", "a"); !slices.Equal(got, []manager.Owner{gateway}) {
			t.Errorf("OwnersOf: got %v, want the gateway", got)
		}
		if got := m.OwnersOf("default", "unreferenced"); len(got) > 0 {
			t.Errorf("OwnersOf an object without references: got %v, want none", got)
		}
		roles, err := access.Roles("web", m.Access())
		var got string
		for _, role := range roles {
			got += fmt.Sprint(role.Namespace, " ", role.Rules[0].ResourceNames, ", ")
		}
		if want := "default [a], other [b], "; err != nil || got != want {
			t.Errorf("Roles: got %q, %v, want %q", got, err, want)
		}
	})
}

// What does not need a watch works with each strategy. A DirectStore keeps nothing, and so
// is never synced.
func TestManagerOfEachStrategy(t *testing.T) {
	for _, options := range []objectcache.StoreOptions{objectcache.WatchOptions{}, objectcache.TTLOptions{}, objectcache.DirectOptions{}} {
		t.Run(fmt.Sprintf("%T", options), func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, m *manager.Manager[*corev1.Secret], _ *apiserver.Server) {
				web := manager.Owner{Kind: "Ingress", Namespace: "default", Name: "web"}
				m.SetReferences(web, key("a"), key("b"))
				if err := m.WaitForSync(t.Context()); err != nil {
					t.Errorf("WaitForSync: got %v, want nil", err)
				}
				if _, direct := options.(objectcache.DirectOptions); m.HasSynced() == direct || m.OwnerHasSynced(web) == direct {
					t.Errorf("HasSynced: got %v, want %v", m.HasSynced(), !direct)
				}
				if got := m.OwnersOf("default", "a"); !slices.Equal(got, []manager.Owner{web}) {
					t.Errorf("OwnersOf: got %v, want web", got)
				}
				if roles, err := access.Roles("web", m.Access()); err != nil || len(roles) != 1 || len(roles[0].Rules[0].ResourceNames) != 2 {
					t.Errorf("Roles: got %v, %v, want one with both names", roles, err)
				}
				if _, err := access.ClusterRoles("web", m.Access()); err == nil {
					t.Error("ClusterRoles: got nil, want an error: Secrets have a namespace")
				}
			})
		})
	}
}
