// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/manager"
)

// model is a manager beside what its store must count.
type model struct {
	*manager.Manager[*corev1.Secret]

	store *countingStore
	held  map[types.UID][]string // what each owner references, as the store writes it
}

func newModel(t *rapid.T) *model {
	store := newCountingStore(t)
	return &model{newManager(t, store, manager.VisitPodSecretNames), store, map[types.UID][]string{}}
}

// step makes a call after which the owner must reference the keys. It checks all
// counts, and that the store was told of what differs and of nothing else: first
// of what is new, then of what is gone.
func (m *model) step(t *rapid.T, owner types.UID, keys []types.NamespacedName, call func()) {
	var wanted, want, all []string
	for _, key := range keys {
		wanted = append(wanted, key.Namespace+"/"+key.Name+" "+string(owner))
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for _, what := range wanted {
		if !slices.Contains(m.held[owner], what) {
			want = append(want, "+"+what)
		}
	}
	for _, what := range m.held[owner] {
		if !slices.Contains(wanted, what) {
			want = append(want, "-"+what)
		}
	}
	m.held[owner] = wanted
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
	for _, held := range m.held {
		all = append(all, held...)
	}
	slices.Sort(all)
	if got, want := m.store.held(), strings.Join(all, ", "); got != want {
		t.Fatalf("references: got %q, want %q", got, want)
	}
}

// The store's counts equal those of a plain model after each of any calls, for
// pods that change, move or have no UID, and for owners of keys everywhere.
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
			"unregister": func(t *rapid.T) { // whatever it names by now
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

// Many references cost one call each, however often and in whatever order a pod
// names them.
func TestLargePod(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	names := numbered(5000, 1)
	slices.Reverse(names)
	m.RegisterPod(podOf("1", slices.Concat(names, names, names)...))
	if got, want := len(store.calls), 5000; got != want {
		t.Errorf("calls to register: got %d, want %d", got, want)
	}
	m.RegisterPod(podOf("1", names[1000:]...))
	m.UnregisterPod(podOf("1"))
	if got, want := len(store.calls), 10000; got != want {
		t.Errorf("calls in all: got %d, want %d", got, want)
	}
	if got := store.held(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}
}

// Registering keeps neither the pod nor what it was decoded from, only names: the
// decoders give each string memory of its own. Unregistering keeps not even these.
func TestNothingOfAPodIsKept(t *testing.T) {
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
			// A function of its own, so that nothing here refers to the pod.
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
				t.Error("registered: got no names, want them: this test looks at the wrong strings")
			}
			m.RegisterPod(podOf("other")) // takes from the pool, and gives back, what the garbage collector would drop
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
	// It is 0 for the same pod again and 1 for another, but the race detector
	// makes sync.Pool forget one in four.
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
