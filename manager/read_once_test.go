// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
)

// kindStore records the calls for references.
type kindStore struct {
	noStore

	calls []string
}

func (s *kindStore) AddReference(_, name string, _ types.UID) { s.calls = append(s.calls, "add "+name) }
func (s *kindStore) AddReadOnceReference(_, name string, _ types.UID) {
	s.calls = append(s.calls, "once "+name)
}
func (s *kindStore) DeleteReference(_, name string, _ types.UID) {
	s.calls = append(s.calls, "delete "+name)
}

// The references of an owner are of one kind. A change of the kind adds before it
// deletes: the object is not dropped in between.
func TestSetReadOnceReferences(t *testing.T) {
	store := &kindStore{}
	m := newManager(t, store, manager.VisitPodSecretNames)
	job := manager.Owner{Kind: "Job", Namespace: "default", Name: "job", UID: "1"}
	steps := []struct {
		name string
		call func()
		want []string
	}{
		{"read-once", func() { m.SetReadOnceReferences(job, key("a"), key("b"), key("a")) }, []string{"once a", "once b"}},
		{"again", func() { m.SetReadOnceReferences(job, key("b"), key("a")) }, nil},
		{"other keys", func() { m.SetReadOnceReferences(job, key("b"), key("c")) }, []string{"once c", "delete a"}},
		{"ordinary", func() { m.SetReferences(job, key("c"), key("d")) }, []string{"add c", "add d", "delete b", "delete c"}},
		{"read-once again", func() { m.SetReadOnceReferences(job, key("c"), key("d")) }, []string{"once c", "once d", "delete c", "delete d"}},
		{"removed", func() { m.SetReadOnceReferences(job) }, []string{"delete c", "delete d"}},
		{"set and removed", func() { m.SetReadOnceReferences(job, key("a")); m.SetReferences(job) }, []string{"once a", "delete a"}},
		{"pod", func() { m.SetReadOnceReferences(manager.Owner{UID: "p"}, key("a")); m.RegisterPod(podOf("p", "a")) }, []string{"once a", "add a", "delete a"}},
		{"pod removed", func() { m.UnregisterPod(podOf("p")) }, []string{"delete a"}},
		{"no identity", func() { m.SetReadOnceReferences(manager.Owner{}, key("a")) }, nil},
	}
	for _, step := range steps {
		store.calls = nil
		step.call()
		if !slices.Equal(store.calls, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, store.calls, step.want)
		}
	}
}
