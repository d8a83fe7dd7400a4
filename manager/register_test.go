// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/manager"
)

func TestRegisterAndUnregister(t *testing.T) {
	type m = *manager.Manager[*corev1.Secret]
	tests := map[string]referencesTest{
		"one pod":            {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "b")) }}, "default/a 1, default/b 1"},
		"named twice":        {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "a")) }}, "default/a 1"},
		"registered twice":   {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.RegisterPod(podOf("1", "a")) }}, "default/a 1"},
		"other references":   {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "b")); m.RegisterPod(podOf("1", "b", "c")) }}, "default/b 1, default/c 1"},
		"two pods":           {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.RegisterPod(podOf("2", "a")) }}, "default/a 1, default/a 2"},
		"unregistered":       {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.UnregisterPod(podOf("1")) }}, ""},
		"unregistered twice": {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.UnregisterPod(podOf("1")); m.UnregisterPod(podOf("1")) }}, ""},
		"never registered":   {[]func(m){func(m m) { m.UnregisterPod(podOf("1", "a")) }}, ""},
		"same name, new UID": {[]func(m){func(m m) {
			p := podOf("1", "a")
			m.RegisterPod(p)
			q := podOf("2", "b")
			q.Name = p.Name
			m.RegisterPod(q)
		}}, "default/a 1, default/b 2"},
		"no references": {[]func(m){func(m m) { m.RegisterPod(podOf("1")); m.UnregisterPod(podOf("1")) }}, ""},
		"nil pods":      {[]func(m){func(m m) { m.RegisterPod(nil); m.UnregisterPod(nil) }}, ""},
		"no UID":        {[]func(m){func(m m) { p := podOf("", "a"); m.RegisterPod(p); p.Name = "other"; m.RegisterPod(p) }}, "default/a Pod/default/other, default/a Pod/default/pod-"},
		"another owner": {[]func(m){func(m m) { m.SetReferences(manager.Owner{UID: "gw"}, key("a"), key("a"), key("b")) }}, "default/a gw, default/b gw"},
		"another owner's less": {[]func(m){func(m m) {
			o := manager.Owner{UID: "gw"}
			m.SetReferences(o, key("a"), key("b"))
			m.SetReferences(o, key("b"))
		}}, "default/b gw"},
		"another owner's none": {[]func(m){func(m m) { o := manager.Owner{UID: "gw"}; m.SetReferences(o, key("a")); m.SetReferences(o) }}, ""},
		"across namespaces": {[]func(m){func(m m) {
			m.SetReferences(manager.Owner{UID: "gw"}, key("a"), types.NamespacedName{Namespace: "other", Name: "a"})
		}}, "default/a gw, other/a gw"},
	}
	checkReferences(t, tests)
}

// Peer bug 12: kubelet leaks the references of a pod that its caller changes between
// RegisterPod and UnregisterPod.
func TestPeerBug12_MutatedPodLeaksNothing(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	pod := podOf("1", "a")
	m.RegisterPod(pod)
	pod.Spec.ImagePullSecrets[0].Name = "b"
	m.RegisterPod(pod)
	pod.Spec.ImagePullSecrets[0].Name = "c"
	m.UnregisterPod(pod)
	if got := store.references(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}

	keys := []types.NamespacedName{key("b"), key("a")}
	m.SetReferences(manager.Owner{UID: "gw"}, keys...)
	if keys[0] != key("b") {
		t.Error("SetReferences reordered its caller's keys")
	}
	keys[0], keys[1] = key("x"), key("y")
	m.SetReferences(manager.Owner{UID: "gw"})
	if got := store.references(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}
}

func TestConcurrentOwners(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			uid := types.UID(fmt.Sprint(i % 4)) // two goroutines for each pod
			for j := range 100 {
				m.RegisterPod(podOf(uid, "a", fmt.Sprint("s", j%3)))
				m.UnregisterPod(podOf(uid))
			}
		})
	}
	all.Wait()
	if got := store.references(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}
}

// model is a manager and the references that its store must count.
type model struct {
	*manager.Manager[*corev1.Secret]

	store *countingStore
	want  map[types.UID][]string // the references of each owner, as countingStore writes them
}

func newModel(t *rapid.T) *model {
	store := newCountingStore(t)
	return &model{newManager(t, store, manager.VisitPodSecretNames), store, map[types.UID][]string{}}
}

// step makes a call after which the owner must reference the keys. It checks all
// counts, and that the call made only the changes that are needed in the store:
// first additions, then deletions.
func (m *model) step(t *rapid.T, owner types.UID, keys []types.NamespacedName, call func()) {
	var wanted, want, all []string
	for _, key := range keys {
		wanted = append(wanted, key.Namespace+"/"+key.Name+" "+string(owner))
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for _, reference := range wanted {
		if !slices.Contains(m.want[owner], reference) {
			want = append(want, "+"+reference)
		}
	}
	for _, reference := range m.want[owner] {
		if !slices.Contains(wanted, reference) {
			want = append(want, "-"+reference)
		}
	}
	m.want[owner] = wanted
	m.store.calls = nil
	call()
	got := m.store.calls
	if !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(a[:1], b[:1]) }) {
		t.Errorf("calls: got %q, want additions first", got)
	}
	slices.Sort(got) // a plus sorts before a minus
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for _, references := range m.want {
		all = append(all, references...)
	}
	slices.Sort(all)
	if got, want := m.store.references(), strings.Join(all, ", "); got != want {
		t.Fatalf("references: got %q, want %q", got, want)
	}
}

// After every call the counts of the store equal those of a model. Pods change,
// move to another namespace and have no UID, and owners have keys in all namespaces.
func TestReferencesEqualAModel(t *testing.T) {
	namespaces := rapid.SampledFrom([]string{"default", "other"})
	uids := rapid.SampledFrom([]types.UID{"1", "2", "3", ""})
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 8)
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		draw := func(t *rapid.T) (*corev1.Pod, types.UID, []types.NamespacedName) {
			var keys []types.NamespacedName
			pod := podOf(uids.Draw(t, "uid"), names.Draw(t, "names")...)
			pod.Namespace = namespaces.Draw(t, "namespace")
			for _, secret := range pod.Spec.ImagePullSecrets {
				keys = append(keys, types.NamespacedName{Namespace: pod.Namespace, Name: secret.Name})
			}
			if pod.UID == "" {
				return pod, types.UID("Pod/" + pod.Namespace + "/" + pod.Name), keys
			}
			return pod, pod.UID, keys
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				pod, owner, keys := draw(t)
				m.step(t, owner, keys, func() { m.RegisterPod(pod) })
			},
			"unregister": func(t *rapid.T) { // with other names than it was registered with
				pod, owner, _ := draw(t)
				m.step(t, owner, nil, func() { m.UnregisterPod(pod) })
			},
			"set references": func(t *rapid.T) {
				_, _, keys := draw(t)
				pod, owner, more := draw(t)
				keys = append(keys, more...)
				given := slices.Clone(keys)
				m.step(t, owner, keys, func() {
					m.SetReferences(manager.Owner{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, keys...)
				})
				if diff := cmp.Diff(given, keys); diff != "" {
					t.Errorf("the caller's keys (-before +after):\n%s", diff)
				}
			},
		})
	})
}

// Registering keeps neither the pod nor the bytes that it was decoded from, only
// names: the decoders allocate each string. Unregistering does not keep the names.
func TestPodIsNotKept(t *testing.T) {
	tests := map[string]struct {
		encode func(*corev1.Pod) ([]byte, error)
		decode func([]byte, *corev1.Pod) error
	}{
		"protobuf": {(*corev1.Pod).Marshal, func(data []byte, pod *corev1.Pod) error { return pod.Unmarshal(data) }},
		"JSON":     {func(pod *corev1.Pod) ([]byte, error) { return json.Marshal(pod) }, func(data []byte, pod *corev1.Pod) error { return json.Unmarshal(data, pod) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, noStore{}, manager.VisitPodSecretNames)
			// A function, so that no variable refers to the pod.
			register := func() (pod weak.Pointer[corev1.Pod], data, own, secret weak.Pointer[byte]) {
				encoded, err := test.encode(podOf("8d4c65b0-0d3b-4f9e-a1c9-6d0f2b7f3f10", "the-secret-of-the-pod"))
				if err != nil {
					t.Fatal(err)
				}
				decoded := &corev1.Pod{}
				if err := test.decode(encoded, decoded); err != nil {
					t.Fatal(err)
				}
				m.RegisterPod(decoded)
				return weak.Make(decoded), weak.Make(&encoded[0]), weak.Make(unsafe.StringData(decoded.Name)),
					weak.Make(unsafe.StringData(decoded.Spec.ImagePullSecrets[0].Name))
			}
			pod, data, own, secret := register()
			runtime.GC()
			if pod.Value() != nil || data.Value() != nil {
				t.Errorf("registered: got pod kept %v, its encoding kept %v, want neither", pod.Value() != nil, data.Value() != nil)
			}
			if own.Value() == nil || secret.Value() == nil {
				t.Error("registered: got no names, want them: the test looks at the wrong strings")
			}
			m.RegisterPod(podOf("other")) // keeps the pooled buffer in use
			m.UnregisterPod(podOf("8d4c65b0-0d3b-4f9e-a1c9-6d0f2b7f3f10"))
			runtime.GC()
			if own.Value() != nil || secret.Value() != nil {
				t.Errorf("unregistered: got pod's name kept %v, Secret's name kept %v, want neither", own.Value() != nil, secret.Value() != nil)
			}
			runtime.KeepAlive(m)
		})
	}
}

func TestRegisteringAllocatesLittle(t *testing.T) {
	// Registering the same pod again needs 0 and another 1, but with the race detector
	// sync.Pool drops one item in four.
	const most = 3
	m := newManager(t, noStore{}, manager.VisitPodSecretNames)
	pod := podOf("1", numbered(20, 1)...)
	m.RegisterPod(pod)
	if got := testing.AllocsPerRun(1000, func() { m.RegisterPod(pod) }); got > most {
		t.Errorf("the same pod again: got %v allocations, want at most %v", got, most)
	}
	if got := testing.AllocsPerRun(1000, func() { m.RegisterPod(pod); m.UnregisterPod(pod) }); got > most {
		t.Errorf("a new pod: got %v allocations, want at most %v", got, most)
	}
}
