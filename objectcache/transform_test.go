// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// withTransform runs f with stores of Secrets that have a transform: with parked streams,
// and over a client without a REST client, whose streams cannot be parked; with WatchList
// and without.
func withTransform(t *testing.T, transform func(*corev1.Secret) *corev1.Secret, f func(t *testing.T, r *rig, lists bool)) {
	t.Helper()
	for _, hidden := range []bool{false, true} {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("typed client %v, lists %v", hidden, lists), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: lists}, objectcache.WatchOptions{})
					client := clientOf(t, r.server)
					secrets := resource.Secrets(client)
					if hidden {
						secrets = clients.Typed(func(namespace string) withoutRESTClient {
							return withoutRESTClient{client.CoreV1().Secrets(namespace)}
						}, corev1.SchemeGroupVersion.WithResource("secrets"))
					}
					r.Store = newStore(t, secrets.WithTransform(transform), objectcache.WatchOptions{})
					r.run()
					f(t, r, lists)
					r.stop()
				})
			})
		}
	}
}

// stripped removes the data of a Secret, and notes whether it had managedFields.
func stripped(secret *corev1.Secret) *corev1.Secret {
	secret.Annotations = map[string]string{"managedFields": fmt.Sprint(len(secret.ManagedFields)), "keys": fmt.Sprint(len(secret.Data))}
	secret.Data = nil
	return secret
}

// The function of WithTransform changes each object before it is stored.
func TestTransform(t *testing.T) {
	withTransform(t, stripped, func(t *testing.T, r *rig, _ bool) {
		created := r.create("tls", func(s *corev1.Secret) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate}}
		})
		if len(created.ManagedFields) == 0 {
			t.Fatal("the server stores no managedFields")
		}
		r.AddReference(namespace, "tls", "pod")
		for _, when := range []string{"at first", "after an update", "after a broken stream"} {
			got := r.mustGet("tls")
			if got.UID != created.UID || got.Data != nil || got.Annotations["keys"] != "1" || got.Annotations["managedFields"] != "0" {
				t.Errorf("%s: got data %v and annotations %v, want no data, and managedFields dropped before", when, got.Data, got.Annotations)
			}
			switch when {
			case "at first":
				r.update("tls", "changed")
			case "after an update":
				r.server.CloseStreams(nil)
				time.Sleep(time.Minute)
			}
		}
		r.remove("tls")
		if status, _ := r.Status(namespace, "tls"); status.Exists || status.LastError != nil && errors.Is(status.LastError, resource.ErrTransform) {
			t.Errorf("after the deletion: got %+v, want no object", status)
		}
	})
}

// brokenTransforms return another object than they were given, or none.
var brokenTransforms = map[string]func(*corev1.Secret) *corev1.Secret{
	"panics":            func(s *corev1.Secret) *corev1.Secret { panic(string(s.Data["password"])) },
	"panics with nil":   func(*corev1.Secret) *corev1.Secret { panic(nil) },
	"nil":               func(*corev1.Secret) *corev1.Secret { return nil },
	"another name":      func(s *corev1.Secret) *corev1.Secret { s.Name = canary; return s },
	"another namespace": func(s *corev1.Secret) *corev1.Secret { s.Namespace = canary; return s },
	"another UID":       func(s *corev1.Secret) *corev1.Secret { s.UID = canary; return s },
	"another version":   func(s *corev1.Secret) *corev1.Secret { s.ResourceVersion = "99999"; return s },
}

// An object that the function of WithTransform spoils is refused, and only that. Get
// returns the cause, without object data, until the function works.
func TestTransformFails(t *testing.T) {
	for name, transform := range brokenTransforms {
		t.Run(name, func(t *testing.T) {
			var broken atomic.Bool
			broken.Store(true)
			some := func(s *corev1.Secret) *corev1.Secret {
				if s.Name == "tls" && broken.Load() {
					return transform(s)
				}
				return s
			}
			withTransform(t, some, func(t *testing.T, r *rig, _ bool) {
				broken.Store(true)
				r.create("tls")
				r.create("other")
				r.AddReference(namespace, "tls", "pod")
				r.AddReference(namespace, "other", "pod")
				_, err := r.get("tls", time.Second)
				for _, want := range []error{resource.ErrTransform, objectcache.ErrNotSynced, context.DeadlineExceeded} {
					if !errors.Is(err, want) {
						t.Errorf("Get: got %v, want %v", err, want)
					}
				}
				if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, canary) {
					t.Errorf("Get: got %s, want no object data", text)
				}
				r.mustGet("other")
				broken.Store(false)
				r.mustGetWithin("tls", 15*time.Second)

				broken.Store(true)
				r.update("tls", "changed")
				if got := r.mustGet("tls"); string(got.Data["password"]) != canary {
					t.Errorf("Get: got %q, want the state before", got.Data["password"])
				}
				status, _ := r.Status(namespace, "tls")
				if status.Phase != objectcache.PhaseNotUpdated || !errors.Is(status.LastError, resource.ErrTransform) {
					t.Errorf("status: got %s and %v, want NotUpdated and ErrTransform", status.Phase, status.LastError)
				}
				broken.Store(false)
				time.Sleep(15 * time.Second)
				if got := r.mustGet("tls"); string(got.Data["password"]) != "changed" {
					t.Errorf("Get: got %q, want the update", got.Data["password"])
				}
			})
		})
	}
}

// A function that fails for many objects says nothing about the server: other objects
// are read at once.
func TestTransformFailureIsNoOutage(t *testing.T) {
	var broken atomic.Bool
	withTransform(t, func(s *corev1.Secret) *corev1.Secret {
		if broken.Load() && s.Name < "d" {
			panic(s)
		}
		if broken.Load() && s.Name != "other" {
			return nil
		}
		return s
	}, func(t *testing.T, r *rig, lists bool) {
		broken.Store(false)
		names := []string{"a", "b", "c", "d", "e", "f"}
		for _, name := range names {
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
		}
		broken.Store(true)
		for _, name := range names {
			r.update(name, "changed")
		}
		r.server.CloseStreams(nil)
		time.Sleep(30 * time.Second)
		r.create("other")
		r.AddReference(namespace, "other", "pod")
		r.within("other", 100*time.Millisecond, r.mustGet("other").UID)
		for _, request := range r.server.Requests() {
			if request.Name == "other" && request.Verb == "list" && !lists {
				t.Error("the server serves WatchLists: got a list of another object, want none")
			}
		}
	})
}

// A source of a fake clientset, which declares that it does not support WatchList, keeps
// that with a transform.
func TestTransformOfAFakeClientset(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", ResourceVersion: "1"}})
	synctest.Test(t, func(t *testing.T) {
		r := rigOf(t, clients.FakeSecrets(client).WithTransform(stripped), objectcache.WatchOptions{})
		r.AddReference(namespace, "tls", "pod")
		if got := r.mustGetWithin("tls", time.Second); got.Annotations["keys"] != "0" {
			t.Errorf("got annotations %v, want those of the transform", got.Annotations)
		}
		r.stop()
	})
}

// The error names the function that panicked.
func TestTransformPanicIsLocated(t *testing.T) {
	withTransform(t, brokenTransforms["panics"], func(t *testing.T, r *rig, _ bool) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		_, err := r.get("tls", time.Second)
		if err == nil || !strings.Contains(err.Error(), "the transform failed: panic: a string in ") ||
			!strings.Contains(err.Error(), "objectcache_test.") {
			t.Errorf("Get: got %v, want where it panicked", err)
		}
	})
}

// What the function of WithTransform removes is not kept in memory.
func TestTransformFreesMemory(t *testing.T) {
	var removed atomic.Pointer[weak.Pointer[byte]]
	withTransform(t, func(s *corev1.Secret) *corev1.Secret {
		pointer := weak.Make(&s.Data["password"][0])
		removed.Store(&pointer)
		s.Data = nil
		return s
	}, func(t *testing.T, r *rig, _ bool) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		kept := r.mustGet("tls")
		goruntime.GC()
		goruntime.GC()
		if removed.Load().Value() != nil {
			t.Error("the data that was removed is still in memory")
		}
		goruntime.KeepAlive(kept)
	})
}

// A second function is called after the first one. Without a function nothing changes.
func TestTransformTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		plain := resource.Secrets(r.client)
		label := func(value string) func(*corev1.Secret) *corev1.Secret {
			return func(s *corev1.Secret) *corev1.Secret {
				s.Annotations = map[string]string{"order": s.Annotations["order"] + value}
				return s
			}
		}
		r.create("tls")
		both := plain.WithTransform(label("a")).WithTransform(label("b")).WithTransform(nil)
		for want, resource := range map[string]resource.Resource[*corev1.Secret]{"ab": both, "": plain} {
			r.Store = newStore(t, resource, objectcache.WatchOptions{})
			r.run()
			r.AddReference(namespace, "tls", "pod")
			if got := r.mustGet("tls").Annotations["order"]; got != want {
				t.Errorf("order: got %q, want %q", got, want)
			}
			r.stop()
		}
	})
}

// A gateway that reads the certificates only keeps nothing else in memory.
func ExampleResource_WithTransform() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, StringData: map[string]string{"tls.crt": "certificate", "ca.crt": "chain"}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	resource := resource.Secrets(server.Client()).WithTransform(func(secret *corev1.Secret) *corev1.Secret {
		secret.Data = map[string][]byte{"tls.crt": secret.Data["tls.crt"]}
		return secret
	})
	store, err := objectcache.NewWatchStore(resource, objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- store.Run(ctx) }()
	store.AddReference("default", "tls", "gateway")

	certificate, err := store.Get(ctx, "default", "tls")
	fmt.Println(len(certificate.Data), string(certificate.Data["tls.crt"]), err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 1 certificate <nil>
	// <nil>
}
