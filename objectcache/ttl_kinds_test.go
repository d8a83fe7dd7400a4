// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// twoKinds are two TTLStores on one Gate. The ConfigMap "settings" was read.
type twoKinds struct {
	server     *apiserver.Server
	secrets    *objectcache.TTLStore[*corev1.Secret]
	configMaps *objectcache.TTLStore[*corev1.ConfigMap]
}

// besideAKindAtRest runs f with ConfigMaps that all rest between two reads. In a second run one of them is refused for
// ever, so that an attempt always waits: no result depends on that. answerSecrets answers each GET of a Secret.
func besideAKindAtRest(t *testing.T, gateOptions objectcache.GateOptions, answerSecrets func() *metav1.Status, f func(*testing.T, *twoKinds)) {
	for name, active := range map[string]bool{"all rest": false, "one does not rest": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
				client, options := clientOf(t, server), objectcache.TTLOptions{Gate: objectcache.NewGate(gateOptions)}
				secrets, err := objectcache.NewTTLStore(resource.Secrets(client), options)
				if err != nil {
					t.Fatal(err)
				}
				configMaps, err := objectcache.NewTTLStore(resource.ConfigMaps(client), options)
				if err != nil {
					t.Fatal(err)
				}
				defer runStore(t.Context(), t, secrets)()
				defer runStore(t.Context(), t, configMaps)()
				server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					switch {
					case request.Verb == "get" && request.Resource == "secrets":
						return answerSecrets()
					case request.Verb == "get" && request.Name == "refused":
						return &forbidden().ErrStatus
					}
					return nil
				})
				k := &twoKinds{server, secrets, configMaps}
				k.writeSettings(t, "first")
				for _, name := range []string{"settings", "refused"} {
					if name == "settings" || active {
						configMaps.AddReference(namespace, name, "pod")
						_, _ = configMaps.Get(t.Context(), namespace, name)
					}
				}
				f(t, k)
			})
		})
	}
}

func (k *twoKinds) writeSettings(t *testing.T, value string) {
	t.Helper()
	configMaps := k.server.Client().CoreV1().ConfigMaps(namespace)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"value": value}}
	_, err := configMaps.Update(t.Context(), settings, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = configMaps.Create(t.Context(), settings, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A kind that gets 401 makes no outage of the server, also if no object of the other kind is read now.
func TestTTLUnauthorizedBesideAKindAtRest(t *testing.T) {
	unauthorized := func() *metav1.Status { return &apierrors.NewUnauthorized("no").ErrStatus }
	besideAKindAtRest(t, objectcache.GateOptions{}, unauthorized, func(t *testing.T, k *twoKinds) {
		for _, name := range []string{"a", "b"} {
			k.secrets.AddReference(namespace, name, "pod")
			_, _ = k.secrets.TryGet(namespace, name)
		}
		time.Sleep(time.Minute) // the TTL
		k.writeSettings(t, "second")
		if got, err := k.configMaps.Get(t.Context(), namespace, "settings"); err != nil || got.Data["value"] != "second" {
			t.Errorf("after the TTL: got %q, %v, want the newest state", got.Data["value"], err)
		}
	})
}

// A slow kind leaves places to another one, also if no object of that is read now: see GateOptions.Opens.
func TestTTLPlacesForAKindAtRest(t *testing.T) {
	crowd(t)
	slow := func() *metav1.Status { time.Sleep(2 * time.Second); return nil }
	besideAKindAtRest(t, objectcache.GateOptions{Opens: 8}, slow, func(t *testing.T, k *twoKinds) {
		var ended atomic.Bool
		for i := range 200 {
			name := fmt.Sprint("secret-", i)
			k.secrets.AddReference(namespace, name, "pod")
			go func() {
				for !ended.Load() {
					_, _ = k.secrets.Get(t.Context(), namespace, name)
					time.Sleep(time.Second)
				}
			}()
		}
		for i := range fewer(10) {
			time.Sleep(time.Minute + time.Duration(i)*97*time.Millisecond)
			began := time.Now()
			if _, err := k.configMaps.Get(t.Context(), namespace, "settings"); err != nil || time.Since(began) > 300*time.Millisecond {
				t.Errorf("got %v after %v, want the object within 0.3 s", err, time.Since(began))
			}
		}
		ended.Store(true)
	})
}

// A slow follower never misses the newest state, also after a restore under the same version.
func TestTTLFollowerAfterARestore(t *testing.T) {
	for _, absent := range []bool{false, true} {
		t.Run(fmt.Sprint("absent between: ", absent), func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{TTL: time.Second, NotFoundTTL: time.Second}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				backup := r.server.Snapshot()
				first := r.update("tls", "x")
				var block atomic.Pointer[chan struct{}]
				var mu sync.Mutex
				var seen []string
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for c, owners := range r.Changes(ctx) {
						mu.Lock()
						seen = append(seen, change{c, owners}.String())
						mu.Unlock()
						if gate := block.Load(); gate != nil {
							<-*gate
						}
					}
				}()
				gate := make(chan struct{})
				block.Store(&gate)
				r.wantValue("x", "tls", "x")
				time.Sleep(2 * time.Second)
				if absent {
					r.remove("tls")
					_, err := r.get("tls", time.Second)
					if !apierrors.IsNotFound(err) {
						t.Errorf("removed: got %v", err)
					}
					time.Sleep(2 * time.Second)
				}
				r.server.Restore(backup)
				second := r.update("tls", "y")
				if first.ResourceVersion != second.ResourceVersion || first.UID != second.UID {
					t.Fatalf("versions: %s and %s", first.ResourceVersion, second.ResourceVersion)
				}
				r.wantValue("y", "tls", "y")
				block.Store(nil)
				close(gate)
				time.Sleep(time.Second)
				mu.Lock()
				if last := seen[len(seen)-1]; last != "tls=y" {
					t.Errorf("Changes: got %q, want tls=y in the end", seen)
				}
				mu.Unlock()
				cancel()
				<-done
			})
		})
	}
}
