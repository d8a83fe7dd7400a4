// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/kubelet"
)

// A registered pod sees its object as it is created, changed and deleted, and nothing after it is unregistered.
func TestObjectOfARegisteredPod(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.wantNotRegistered(namespace, "tls")
		r.RegisterPod(r.pod("1", "tls"))
		r.wantNotFound("tls")
		r.write("tls", "old", false)
		r.wantValue("tls", "old")
		r.write("tls", "new", false)
		r.wantValue("tls", "new")
		r.remove("tls")
		r.wantNotFound("tls")
		r.UnregisterPod(r.pod("1"))
		r.wantNotRegistered(namespace, "tls")
		r.wantStreams("without a pod", "tls", 0)
	})
}

// More pods that name an object, and pods that go, cause no request.
func TestOneStreamForAllPods(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.write("tls", "1", false)
		r.RegisterPod(r.pod("first", "tls"))
		r.wantValue("tls", "1")
		before := r.requests()
		for i := range 20 {
			r.RegisterPod(r.pod(types.UID(fmt.Sprint(i)), "tls"))
			r.UnregisterPod(r.pod(types.UID(fmt.Sprint(i)), "tls"))
		}
		r.wantValue("tls", "1")
		if got := r.requests(); got != before {
			r.t.Errorf("got %d requests for 20 more pods, want none", got-before)
		}
		r.wantStreams("with one pod", "tls", 1)
		r.UnregisterPod(r.pod("first"))
		r.wantStreams("without a pod", "tls", 0)
		if got := r.requests(); got != before {
			r.t.Errorf("got %d requests after the last pod went, want none", got-before)
		}
	})
}

// What is registered is what the pods name that are registered now, in their namespaces.
func TestRegistered(t *testing.T) {
	type step func(r *rig)
	register := func(namespace string, uid types.UID, names ...string) step {
		return func(r *rig) { r.RegisterPod(r.podIn(namespace, uid, names...)) }
	}
	unregister := func(namespace string, uid types.UID, names ...string) step {
		return func(r *rig) { r.UnregisterPod(r.podIn(namespace, uid, names...)) }
	}
	recreated := func(uid types.UID) func(pod *corev1.Pod) *corev1.Pod {
		return func(pod *corev1.Pod) *corev1.Pod { pod.Name, pod.UID = "web", uid; return pod }
	}
	tests := map[string]struct {
		steps []step
		want  string // of the objects a, b and c in the namespaces default and other
	}{
		"register":              {[]step{register("default", "1", "a", "b")}, "default/a default/b"},
		"register twice":        {[]step{register("default", "1", "a"), register("default", "1", "a"), unregister("default", "1", "a")}, ""},
		"update":                {[]step{register("default", "1", "a", "b"), register("default", "1", "b", "c")}, "default/b default/c"},
		"update to none":        {[]step{register("default", "1", "a"), register("default", "1")}, ""},
		"shared":                {[]step{register("default", "1", "a", "b"), register("default", "2", "a"), unregister("default", "1", "a", "b")}, "default/a"},
		"other namespace":       {[]step{register("default", "1", "a"), register("other", "2", "b"), unregister("default", "1", "a")}, "other/b"},
		"unregister":            {[]step{register("default", "1", "a"), unregister("default", "1", "a")}, ""},
		"unregister twice":      {[]step{register("default", "1", "a"), register("default", "2", "a"), unregister("default", "1", "a"), unregister("default", "1", "a")}, "default/a"},
		"unregister another":    {[]step{register("default", "1", "a"), unregister("default", "2", "a")}, "default/a"},
		"unregister what it is": {[]step{register("default", "1", "a"), unregister("default", "1", "b")}, ""},
		"recreated pod, both run": {[]step{
			func(r *rig) { r.RegisterPod(recreated("1")(r.pod("", "a"))) },
			func(r *rig) { r.RegisterPod(recreated("2")(r.pod("", "b"))) },
		}, "default/a default/b"},
		"recreated pod, the old one ends": {[]step{
			func(r *rig) { r.RegisterPod(recreated("1")(r.pod("", "a"))) },
			func(r *rig) { r.RegisterPod(recreated("2")(r.pod("", "b"))) },
			func(r *rig) { r.UnregisterPod(recreated("1")(r.pod(""))) },
		}, "default/b"},
		"pod without UID": {[]step{
			func(r *rig) { r.RegisterPod(recreated("")(r.pod("", "a"))) },
			func(r *rig) { r.RegisterPod(recreated("")(r.pod("", "b"))) },
		}, "default/b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				for _, step := range test.steps {
					step(r)
				}
				var got []string
				for _, key := range []string{"default/a", "default/b", "default/c", "other/a", "other/b", "other/c"} {
					namespace, name, _ := strings.Cut(key, "/")
					if _, err := r.GetObject(namespace, name); err == nil || !strings.HasSuffix(err.Error(), "not registered") {
						got = append(got, key)
					}
				}
				if got := strings.Join(got, " "); got != test.want {
					r.t.Errorf("registered: got %q, want %q", got, test.want)
				}
			})
		})
	}
}

// The stream of an object ends when the object is seen to be immutable. The object is served on.
func TestImmutable(t *testing.T) {
	type state struct {
		value     string // empty: absent
		immutable bool
	}
	tests := map[string]struct {
		states  []state
		streams int
	}{
		"absent, created as mutable":   {[]state{{}, {"1", false}}, 1},
		"absent, created as immutable": {[]state{{}, {"1", true}}, 0},
		"mutable, changed":             {[]state{{"1", false}, {"2", false}}, 1},
		"mutable, made immutable":      {[]state{{"1", false}, {"2", true}}, 0},
		"immutable":                    {[]state{{"1", true}}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(r *rig) {
				for i, state := range test.states {
					if state.value != "" {
						r.write("tls", state.value, state.immutable)
					}
					if i == 0 {
						r.RegisterPod(r.pod("1", "tls"))
					}
					if state.value == "" {
						r.wantNotFound("tls")
						continue
					}
					r.wantValue("tls", state.value)
				}
				r.wantStreams("at the end", "tls", test.streams)
				r.wantValue("tls", test.states[len(test.states)-1].value)
			})
		})
	}
}

// A stream that no Get needs for five resync intervals ends. The next Get opens it again. Gets keep it open.
func TestIdle(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.write("tls", "1", false)
		r.RegisterPod(r.pod("1", "tls"))
		for range 15 {
			r.wantValue("tls", "1")
			r.wantStreams("in use", "tls", 1)
			time.Sleep(resyncInterval)
		}
		opened := r.requests()
		r.wantValue("tls", "1")
		if got := r.requests(); got != opened {
			r.t.Errorf("got %d requests by a Get of a stream in use, want none", got-opened)
		}
		time.Sleep(11 * resyncInterval)
		r.wantStreams("idle", "tls", 0)
		r.write("tls", "2", false)
		r.wantValue("tls", "2")
		r.wantStreams("in use again", "tls", 1)
	})
}

// A stream is not idle for less than a minute, as short as the resync interval may be.
func TestShortResyncInterval(t *testing.T) {
	k := secrets
	k.newOurs = func(client kubernetes.Interface) (runner, error) {
		return kubelet.NewWatchingSecretManager(client, time.Second, nil)
	}
	inBubble(t, k, "refwatch", startOurs, func(r *rig) {
		r.RegisterPod(r.pod("1", "tls"))
		r.wantNotFound("tls")
		time.Sleep(59 * time.Second)
		r.wantStreams("after 59s", "tls", 1)
		time.Sleep(61 * time.Second)
		r.wantStreams("after two minutes", "tls", 0)
	})
}

// A Get waits for a second. The object that has not synced until then is served when it has.
func TestSlowSync(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.write("tls", "1", false)
		release := r.holdBack()
		r.RegisterPod(r.pod("1", "tls"))
		synctest.Wait()
		began := time.Now()
		err := r.wantError("tls")
		if want := "failed to sync " + r.kind.name + " cache: timed out waiting for the condition"; !strings.HasPrefix(err.Error(), want) {
			r.t.Errorf("got %q, want it to begin with %q", err, want)
		}
		if took := time.Since(began); took != time.Second {
			r.t.Errorf("GetObject took %v, want 1s", took)
		}
		release()
		synctest.Wait()
		r.wantValue("tls", "1")
	})
}

// A Get that waits returns the object once it has synced.
func TestGetWaits(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.write("tls", "1", false)
		release := r.holdBack()
		r.RegisterPod(r.pod("1", "tls"))
		time.AfterFunc(500*time.Millisecond, release)
		r.wantValue("tls", "1")
	})
}

// A name that no object can have is absent, so that a pod with an optional reference starts.
func TestInvalidName(t *testing.T) {
	onBoth(t, func(r *rig) {
		for _, name := range []string{"Upper", "under_score", "-dash", strings.Repeat("a", 254)} {
			r.RegisterPod(r.pod(types.UID(name), name))
			r.wantNotFound(name)
			r.UnregisterPod(r.pod(types.UID(name)))
		}
	})
}
