// SPDX-License-Identifier: Apache-2.0

package derived_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	namespace = "default"
	// canary is object data, which no log or error may contain.
	canary = "canary-canary-canary"
)

// rig is a store of Secrets with any strategy, a client and an API server in one synctest
// bubble. The HTTP traffic is real, the time is virtual.
type rig struct {
	objectcache.Store[*corev1.Secret]

	t      *testing.T
	server *apiserver.Server
	client kubernetes.Interface
}

// inBubble runs f in a bubble, with a store that is running.
func inBubble(t *testing.T, options objectcache.StoreOptions, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})}
		r.client = r.server.Client()
		client, err := kubernetes.NewForConfig(resource.ConfigFor(r.server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		if r.Store, err = objectcache.NewStore(resource.Secrets(client), options); err != nil {
			t.Fatal(err)
		}
		stop := runStore(t.Context(), t, r.Store)
		synctest.Wait()
		f(t, r)
		stop()
	})
}

// runStore runs a store until the returned function is called, which waits for its
// end.
func runStore(ctx context.Context, t testing.TB, store interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

func valueOf(secret *corev1.Secret) string { return string(secret.Data["password"]) }

// create creates a Secret with a value, or with canary.
func (r *rig) create(name string, value ...string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(canary)}}
	if len(value) > 0 {
		secret.Data["password"] = []byte(value[0])
	}
	if _, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.t.Fatalf("create %s: %v", name, err)
	}
	synctest.Wait()
}

// referenced creates an object with a reference, and waits until it is in memory.
func (r *rig) referenced(name string) {
	r.t.Helper()
	r.create(name)
	r.AddReference(namespace, name, "pod")
	r.mustGet(name)
}

func (r *rig) update(name, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.t.Fatalf("update %s: %v", name, err)
	}
	synctest.Wait()
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatalf("delete %s: %v", name, err)
	}
	synctest.Wait()
}

// mustGet returns the object, or ends the test.
func (r *rig) mustGet(name string) *corev1.Secret {
	r.t.Helper()
	secret, err := r.Get(r.t.Context(), namespace, name)
	if err != nil {
		r.t.Fatalf("Get %s: %v", name, err)
	}
	return secret
}

// collect runs the garbage collector until the channel is closed.
func collect(t *testing.T, freed <-chan struct{}) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the value is still reachable")
}
