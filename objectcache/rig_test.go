// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	namespace = "default"
	// canary is what must never be seen in a log or an error.
	canary = "canary-canary-canary"
)

// rig is a store of Secrets, a real client and an API server, all in one
// synctest bubble: the wire is real, the time is virtual.
type rig struct {
	*objectcache.WatchStore[*corev1.Secret]

	t      *testing.T
	server *apiserver.Server
	client kubernetes.Interface
	stop   func() // ends Run and waits for it
	down   atomic.Pointer[metav1.Status]
}

// inBubble runs f with a store that is running.
func inBubble(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *rig)) {
	t.Helper()
	idleBubble(t, options, func(t *testing.T, r *rig) {
		r.run()
		f(t, r)
	})
}

// idleBubble runs f with a store that is not running yet.
func idleBubble(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, options)
		f(t, r)
		r.stop()
	})
}

func newRig(t *testing.T, server apiserver.Options, options objectcache.WatchOptions) *rig {
	r := &rig{t: t, server: apiserver.New(t, server), stop: func() {}}
	r.client = r.server.Client()
	r.WatchStore = newStore(t, objectcache.Secrets(r.client), options)
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "watch" || request.Verb == "list" {
			return r.down.Load()
		}
		return nil
	})
	return r
}

// rigOf is a store of any source, running, without a server.
func rigOf(t *testing.T, resource objectcache.Resource[*corev1.Secret], options objectcache.WatchOptions) *rig {
	r := &rig{t: t, WatchStore: newStore(t, resource, options)}
	r.run()
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: got %v, want nil", err)
		}
		r.stop = func() {}
	}
	synctest.Wait()
}

// refuse makes the server answer every list and watch with a status; nil heals.
func (r *rig) refuse(err *apierrors.StatusError) {
	if err == nil {
		r.down.Store(nil)
		return
	}
	r.down.Store(&err.ErrStatus)
}

func (r *rig) create(name string, change ...func(*corev1.Secret)) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"password": []byte(canary)},
	}
	for _, f := range change {
		f(secret)
	}
	created, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatalf("create %s: %v", name, err)
	}
	synctest.Wait()
	return created
}

func (r *rig) update(name, value string) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	updated, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		r.t.Fatalf("update %s: %v", name, err)
	}
	synctest.Wait()
	return updated
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatalf("delete %s: %v", name, err)
	}
	synctest.Wait()
}

func immutable(secret *corev1.Secret) { yes := true; secret.Immutable = &yes }

// get calls Get with a limit of virtual time.
func (r *rig) get(name string, limit time.Duration) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	return r.Get(ctx, namespace, name)
}

// mustGet wants an object at once: nothing in the bubble has a reason to wait.
func (r *rig) mustGet(name string) *corev1.Secret {
	r.t.Helper()
	return r.mustGetWithin(name, time.Second)
}

func (r *rig) mustGetWithin(name string, limit time.Duration) *corev1.Secret {
	r.t.Helper()
	secret, err := r.get(name, limit)
	if err != nil {
		r.t.Fatalf("Get %s: %v", name, err)
	}
	return secret
}

// streams is how many watches of an object are open on the server.
func (r *rig) streams(name string) int {
	synctest.Wait()
	return r.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name})
}

// opens is how many watches of an object there have been.
func (r *rig) opens(name string) int {
	synctest.Wait()
	count := 0
	for _, request := range r.server.Requests() {
		if request.Verb == "watch" && request.Name == name {
			count++
		}
	}
	return count
}

func (r *rig) phase(name string) objectcache.Phase {
	synctest.Wait()
	status, _ := r.Status(namespace, name)
	return status.Phase
}

func forbidden() *apierrors.StatusError {
	return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))
}

func unavailable() *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable("down")
	err.ErrStatus.Code = http.StatusServiceUnavailable
	return err
}

// async runs Get in a goroutine of its own.
func (r *rig) async(ctx context.Context, name string) <-chan result {
	done := make(chan result, 1)
	go func() {
		secret, err := r.Get(ctx, namespace, name)
		done <- result{secret, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

type result struct {
	secret *corev1.Secret
	err    error
	at     time.Time
}
