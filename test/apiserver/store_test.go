// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// newTestStore returns the watch cache of a store with the initial namespaces, and its table of secrets.
func newTestStore(t tester, limit int) (*watchCache, *table) {
	s := newStore(builtInResources, limit).newCache()
	check(t, s.createInitialNamespaces())
	return s, s.tableOf(secrets)
}

// mustSwap writes next and returns the stored object. It fails the test on an error.
func mustSwap(t tester, s *watchCache, table *table, key types.NamespacedName, old, next object) object {
	stored, err := s.swap(table, key, old, next)
	check(t, err)
	return stored
}

func all(r *resource) *selection { return newSelection(r, "", nil, nil) }

// TestListIsInKeyOrder checks the order of etcd's keys, where "a-b/x" is before "a/x".
func TestListIsInKeyOrder(t *testing.T) {
	s, table := newTestStore(t, 100)
	for _, namespace := range []string{"a", "a-b"} {
		ns := namespaces.newObject()
		ns.SetName(namespace)
		mustSwap(t, s, s.tableOf(namespaces), types.NamespacedName{Name: namespace}, nil, ns)
		for _, name := range []string{"y", "x"} {
			secret := newSecret(name)
			secret.Namespace = namespace
			mustSwap(t, s, table, keyOf(secret), nil, secret)
		}
	}
	found, _, err := s.list(table, all(secrets), listPlan{})
	check(t, err)
	var got []string
	for _, obj := range found {
		got = append(got, storageKey(obj))
	}
	if diff := cmp.Diff([]string{"a-b/x", "a-b/y", "a/x", "a/y"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestPublish checks that a write reaches the watchers of its object, of its namespace, of its name and of all objects,
// and no others.
func TestPublish(t *testing.T) {
	s, table := newTestStore(t, 100)
	name := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	for name, test := range map[string]struct {
		sel  *selection
		want int
	}{
		"object":            {newSelection(secrets, "default", nil, name("a")), 1},
		"namespace":         {newSelection(secrets, "default", nil, nil), 1},
		"name":              {newSelection(secrets, "", nil, name("a")), 1},
		"everything":        {all(secrets), 1},
		"another object":    {newSelection(secrets, "default", nil, name("b")), 0},
		"another namespace": {newSelection(secrets, "kube-system", nil, nil), 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, err := s.watch(table, test.sel, start{}, 10)
			check(t, err)
			stored := mustSwap(t, s, table, key("a"), nil, newSecret("a"))
			if events, _ := w.take(); len(events) != test.want {
				t.Errorf("got %d events, want %d", len(events), test.want)
			}
			s.removeWatcher(table, w)
			mustSwap(t, s, table, key("a"), stored, nil)
			if events, _ := w.take(); len(events) != 0 {
				t.Errorf("after removeWatcher: got %d events, want none", len(events))
			}
		})
	}
	if len(table.watchers) != 0 {
		t.Errorf("got scopes %v without watchers, want none", table.watchers)
	}
}

// TestHistoryModel checks, for random writes, that a list at every version in the history returns the state at that
// version, and that a watch from there leads to the current state.
func TestHistoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, table := newTestStore(t, 10)
		past := map[uint64]map[string]string{} // version to key to the object's version
		record := func() {
			state := map[string]string{}
			for k, obj := range table.objects {
				state[k.Name] = obj.GetResourceVersion()
			}
			past[s.currentVersion()] = state
		}
		record()
		for range rapid.IntRange(0, 60).Draw(t, "writes") {
			name := key(rapid.StringMatching("[a-d]").Draw(t, "name"))
			current, _ := s.get(table, name)
			var next object
			if current == nil || rapid.Bool().Draw(t, "update") {
				next = newSecret(name.Name)
			}
			mustSwap(t, s, table, name, current, next)
			record()
		}
		present := past[s.currentVersion()]
		for _, version := range slices.Sorted(maps.Keys(past)) {
			checkVersion(t, s, table, version, past[version], present)
		}
	})
}

func checkVersion(t *rapid.T, s *watchCache, table *table, version uint64, then, present map[string]string) {
	found, at, err := s.list(table, all(secrets), listPlan{exact: version})
	if version < table.history.floor {
		if !apierrors.IsResourceExpired(err) {
			t.Fatalf("got error %v at dropped version %d, want Expired", err, version)
		}
		return
	}
	got := map[string]string{}
	for _, obj := range found {
		got[obj.GetName()] = obj.GetResourceVersion()
	}
	if diff := cmp.Diff(then, got); diff != "" || at != version || err != nil {
		t.Fatalf("list at %d: version %d, error %v (-want +got)\n%s", version, at, err, diff)
	}
	w, events, err := s.watch(table, all(secrets), start{version: version}, 10)
	if err != nil {
		t.Fatalf("watch from %d: %v", version, err)
	}
	defer s.removeWatcher(table, w)
	for _, e := range events {
		if e.version <= version {
			t.Fatalf("watch from %d: got event at version %d, want only later ones", version, e.version)
		}
		if e.deleted {
			delete(got, e.key.Name)
		} else {
			got[e.key.Name] = e.object.GetResourceVersion()
		}
	}
	if diff := cmp.Diff(present, got); diff != "" {
		t.Fatalf("watch from %d (-want +got)\n%s", version, diff)
	}
}

func TestHistoryDropsTheOldest(t *testing.T) {
	const limit = 5
	h := history{floor: 10, limit: limit}
	for version := uint64(11); version <= 40; version++ {
		h.add(&event{version: version})
		if kept := len(h.events); version >= 15 && kept < limit || kept >= 2*limit {
			t.Fatalf("got %d events kept at version %d, want at least %d and less than %d", kept, version, limit, 2*limit)
		}
		if _, ok := h.since(h.floor - 1); ok {
			t.Fatalf("got events since %d, want them dropped", h.floor-1)
		}
		events, ok := h.since(h.floor)
		if !ok || len(events) == 0 || events[0].version != h.floor+1 {
			t.Fatalf("got %v, %t since the floor %d, want all events above it", events, ok, h.floor)
		}
	}
	if events, ok := h.since(100); !ok || len(events) != 0 {
		t.Errorf("future version: got %v, %t, want no events and true", events, ok)
	}
}

func TestEventForSelection(t *testing.T) {
	blue, red := newSecret("a"), newSecret("a")
	blue.Labels, blue.ResourceVersion = map[string]string{"colour": "blue"}, "1"
	red.Labels, red.ResourceVersion = map[string]string{"colour": "red"}, "2"
	sel := newSelection(secrets, "", labels.SelectorFromSet(labels.Set{"colour": "blue"}), nil)
	for name, test := range map[string]struct {
		event event
		want  string // type and version, or empty
	}{
		"created inside":  {event{object: blue}, "ADDED 1"},
		"created outside": {event{object: red}, ""},
		"stays":           {event{object: blue, previous: blue}, "MODIFIED 1"},
		"enters":          {event{object: blue, previous: red}, "ADDED 1"},
		"leaves":          {event{version: 2, object: red, previous: blue}, "DELETED 2"},
		"deleted inside":  {event{object: blue, previous: blue, deleted: true}, "DELETED 1"},
		"deleted outside": {event{object: red, previous: red, deleted: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if out, ok := test.event.forSelection(sel); ok {
				got = fmt.Sprintf("%s %s", out.Type, out.Object.(object).GetResourceVersion())
				if out.Object.(object).GetLabels()["colour"] != "blue" {
					t.Errorf("got content %v, want the one that the watcher selects", out.Object)
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
