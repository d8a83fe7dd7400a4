// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// patience is how long a test waits for what must happen: more than what is promised, which is a minute at most
	// but where a test says otherwise, so that a slow machine is no failure.
	patience = 90 * time.Second
	// pollInterval is the time between two looks at a state that has no notification.
	pollInterval = 20 * time.Millisecond
	// owner is who references everything, unless a test is about owners.
	owner types.UID = "owner"
)

// rig is a store under test, and an admin who never goes through the proxy.
type rig struct {
	*testing.T

	cluster   *e2e.Cluster
	admin     kubernetes.Interface
	client    kubernetes.Interface // the store's
	requests  *requests            // of the store's client
	namespace string
	store     *objectcache.WatchStore[*corev1.Secret]
	stop      func() // ends the store and waits for it
	others    int    // references in other stores, for observe
	patience  time.Duration
}

// newRig makes a store that runs, and its namespace unless that exists. When the test has ended, the store is stopped
// and the server asked whether it has forgotten the streams. config is that of the store's client; nil is an admin's,
// through the proxy.
func newRig(t *testing.T, cluster *e2e.Cluster, namespace string, config *rest.Config, options objectcache.WatchOptions) *rig {
	t.Helper()
	if config == nil {
		config = cluster.ThroughProxy(cluster.Admin())
	}
	r := &rig{T: t, cluster: cluster, namespace: namespace, requests: &requests{}, patience: patience}
	r.admin = clientFor(t, cluster.Admin())
	r.ensureNamespace()
	r.client, r.store = newStore(t, r.requests.of(config), options)
	r.stop = r.run(r.store.Run)
	t.Cleanup(r.leave)
	return r
}

// run starts a store, until stop is called or the test has ended.
func (r *rig) run(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("Run: got %v, want none", err)
		}
	})
	r.Cleanup(stop)
	return stop
}

// newStore returns a store as an agent should have it, and its client. These three functions construct what is tested.
func newStore(t *testing.T, config *rest.Config, options objectcache.WatchOptions) (kubernetes.Interface, *objectcache.WatchStore[*corev1.Secret]) {
	t.Helper()
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	store, err := objectcache.NewWatchStore(objectcache.Secrets(client), options)
	if err != nil {
		t.Fatal(err)
	}
	return client, store
}

// newConfigMaps returns a store of another kind for the same client.
func newConfigMaps(t *testing.T, client kubernetes.Interface, options objectcache.WatchOptions) *objectcache.WatchStore[*corev1.ConfigMap] {
	t.Helper()
	store, err := objectcache.NewWatchStore(objectcache.ConfigMaps(client), options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// oneGate returns options with a gate, for several stores.
func oneGate() objectcache.WatchOptions {
	return objectcache.WatchOptions{Gate: reflector.NewGate(reflector.GateOptions{})}
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// leave stops the store and finds no stream of it on the server. It also leaves the cluster as it should be for the
// next test. The test's own context has ended by now.
func (r *rig) leave() {
	r.stop()
	r.cluster.Proxy.Reset()
	r.cluster.Proxy.Cut() // connections that went through a black hole end for the server only now
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), r.patience)
	defer cancel()
	r.poll(ctx, func() error { return streams(ctx, r.cluster, 0) })
}

// streams returns nil if the server has so many watches open on single Secrets, by its own count.
func streams(ctx context.Context, cluster *e2e.Cluster, want int) error {
	got, err := cluster.Metric(ctx, "apiserver_longrunning_requests", map[string]string{
		"resource": "secrets", "scope": "resource", "verb": "WATCH",
	})
	if err == nil && int(got) != want {
		err = fmt.Errorf("got %v streams on the server, want %d", got, want)
	}
	return err
}

// eventually waits until f returns nil, and returns how long that took.
func (r *rig) eventually(f func() error) time.Duration {
	r.Helper()
	return r.within(r.patience, f)
}

// within is eventually with another patience.
func (r *rig) within(patience time.Duration, f func() error) time.Duration {
	r.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	r.poll(ctx, f)
	if r.Failed() {
		r.FailNow()
	}
	return time.Since(began)
}

func (r *rig) poll(ctx context.Context, f func() error) {
	r.Helper()
	last := errors.New("never looked")
	_ = wait.PollUntilContextCancel(ctx, pollInterval, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil, nil
	})
	if last != nil {
		r.Errorf("still not so: %v", last)
	}
}

// during runs f, and holds look to be true all the while: it is called again and again until f has returned.
func (r *rig) during(f func(context.Context) error, look func() error) {
	r.Helper()
	done := make(chan error, 1)
	go func() { done <- f(r.Context()) }()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if err := look(); err != nil {
			r.Errorf("meanwhile: %v", err)
			look = func() error { return nil } // once is enough
		}
		select {
		case err := <-done:
			if err != nil {
				r.Fatal(err)
			}
			return
		case <-ticker.C:
		}
	}
}

// last returns a function for during that takes so long.
func last(long time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(long)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// get is a Get of the store that is not ready to wait: what it wants is in memory.
func (r *rig) get(name string) (*corev1.Secret, error) {
	return r.store.Get(ended, r.namespace, name)
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// agrees returns nil if Get says of an object what the server said. want is nil if the server has none.
func (r *rig) agrees(name string, want *corev1.Secret) error {
	got, err := r.get(name)
	switch {
	case want == nil && apierrors.IsNotFound(err):
		return nil
	case want == nil:
		return fmt.Errorf("%s: got %s and error %w, want NotFound", name, describe(got), err)
	case err != nil:
		return fmt.Errorf("%s: got %w, want %s", name, err, describe(want))
	case !same(got, want):
		return fmt.Errorf("%s: got %s, want %s", name, describe(got), describe(want))
	}
	return nil
}

// same reports whether two states of a test's object have the same description. A thousand of them are compared every
// few milliseconds.
func same(a, b *corev1.Secret) bool {
	return a.ResourceVersion == b.ResourceVersion && a.UID == b.UID && bytes.Equal(a.Data["value"], b.Data["value"])
}

// describe returns a text that differs for any two states of a test's object.
func describe(secret *corev1.Secret) string {
	if secret == nil {
		return "none"
	}
	return fmt.Sprintf("version %s of %s with %q", secret.ResourceVersion, secret.UID, secret.Data["value"])
}

// allAgree returns nil if Get says the same as want of every name.
func (r *rig) allAgree(names []string, want map[string]*corev1.Secret) error {
	for _, name := range names {
		if err := r.agrees(name, want[name]); err != nil {
			return err
		}
	}
	return nil
}

// converged waits until every Get agrees with the server and every stream is healthy, and returns how long that took.
// Nobody may write meanwhile.
func (r *rig) converged(names []string) time.Duration {
	r.Helper()
	want := r.onServer()
	return r.eventually(func() error {
		if err := r.allAgree(names, want); err != nil {
			return err
		}
		return r.watching(names)
	})
}

// watching returns nil if the streams of all names are healthy.
func (r *rig) watching(names []string) error {
	return r.all(names, func(s objectcache.Status) error {
		if s.Phase != objectcache.Watching && s.Phase != objectcache.Immutable {
			return fmt.Errorf("got phase %s (%w), want a healthy one", s.Phase, s.LastError)
		}
		return nil
	})
}

// all returns the first error that check finds in the status of an object.
func (r *rig) all(names []string, check func(objectcache.Status) error) error {
	for _, name := range names {
		if err := check(r.status(name)); err != nil {
			return fmt.Errorf("status of %s: %w", name, err)
		}
	}
	return nil
}

func (r *rig) status(name string) objectcache.Status {
	r.Helper()
	status, ok := r.store.Status(r.namespace, name)
	if !ok {
		r.Fatalf("%s: got no status, want one", name)
	}
	return status
}

// failing returns nil if the streams of all names are known to be broken.
func (r *rig) failing(names []string, atLeast int) error {
	return r.all(names, func(s objectcache.Status) error {
		if s.Phase != objectcache.Failing || s.Failures < atLeast || s.LastError == nil {
			return fmt.Errorf("got phase %s, %d failures and error %w, want %s and at least %d",
				s.Phase, s.Failures, s.LastError, objectcache.Failing, atLeast)
		}
		return nil
	})
}
