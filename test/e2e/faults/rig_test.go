// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	// timeout bounds each wait. It is longer than what is promised, which is a minute at most unless a test says
	// otherwise, so that a slow machine does not fail a test.
	timeout = 90 * time.Second
	// checkInterval is the time between two checks of during.
	checkInterval = 20 * time.Millisecond
	// owner is the owner of all references, unless a test has several owners.
	owner types.UID = "owner"
)

// rig is a store under test, and an administrator's client that does not use the proxy.
type rig struct {
	*testing.T

	cluster   *e2e.Cluster
	admin     kubernetes.Interface
	client    kubernetes.Interface // the store's
	requests  *requests            // of the store's client
	namespace string
	store     *objectcache.WatchStore[*corev1.Secret]
	stop      func() // stops the store
	others    int    // references in other stores, for observe
	timeout   time.Duration
}

// newRig creates the namespace, unless it exists, and runs a store. When the test ends, the rig stops the store and
// checks that no stream is open on the server. config is that of the store's client; nil means an administrator's,
// through the proxy.
func newRig(t *testing.T, cluster *e2e.Cluster, namespace string, config *rest.Config, options objectcache.WatchOptions) *rig {
	t.Helper()
	if config == nil {
		config = cluster.ThroughProxy(cluster.Admin())
	}
	r := &rig{T: t, cluster: cluster, namespace: namespace, requests: &requests{}, timeout: timeout}
	r.admin = e2e.Client(t, cluster.Admin())
	r.ensureNamespace()
	r.client, r.store = newStore(t, r.requests.wrap(config), options)
	r.stop = e2e.Run(t, r.store.Run)
	t.Cleanup(r.cleanUp)
	return r
}

// newStore returns a store of Secrets, and its client.
func newStore(t *testing.T, config *rest.Config, options objectcache.WatchOptions) (kubernetes.Interface, *objectcache.WatchStore[*corev1.Secret]) {
	t.Helper()
	if *blocking {
		var err error
		if config, err = clients.NetHTTP(config); err != nil {
			t.Fatal(err)
		}
	}
	client, err := manager.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	options.OutageGrace = cmp.Or(options.OutageGrace, -1) // Gets wait for the end of a fault
	store, err := objectcache.NewWatchStore(resource.Secrets(client), options)
	if err != nil {
		t.Fatal(err)
	}
	return client, store
}

// newConfigMaps returns a store of ConfigMaps for the same client.
func newConfigMaps(t *testing.T, client kubernetes.Interface, options objectcache.WatchOptions) *objectcache.WatchStore[*corev1.ConfigMap] {
	t.Helper()
	store, err := objectcache.NewWatchStore(resource.ConfigMaps(client), options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// cleanUp stops the store, resets the proxy, and checks that no stream is open on the server. The test's context has
// ended.
func (r *rig) cleanUp() {
	r.stop()
	r.cluster.Proxy.Reset()
	r.cluster.Proxy.Cut() // closes connections that were in a black hole
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), r.timeout)
	defer cancel()
	if err := e2e.Poll(ctx, func(ctx context.Context) error { return streams(ctx, r.cluster, 0) }); err != nil {
		r.Error(err)
	}
}

// streams returns nil if that many watches of single Secrets are open on the server.
func streams(ctx context.Context, cluster *e2e.Cluster, want int) error {
	got, err := cluster.OpenWatches(ctx, "secrets")
	if err == nil && got != want {
		err = fmt.Errorf("got %d streams on the server, want %d", got, want)
	}
	return err
}

// eventually waits until check returns nil, and returns how long that took.
func (r *rig) eventually(check func() error) time.Duration {
	r.Helper()
	return r.eventuallyWithin(r.timeout, check)
}

// eventuallyWithin is like eventually, with another timeout.
func (r *rig) eventuallyWithin(timeout time.Duration, check func() error) time.Duration {
	r.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := e2e.Poll(ctx, func(context.Context) error { return check() }); err != nil {
		r.Error(err)
	}
	if r.Failed() {
		r.FailNow()
	}
	return time.Since(began)
}

// during runs f, and calls check repeatedly until f has returned. The first error of check fails the test.
func (r *rig) during(f func(context.Context) error, check func() error) {
	r.Helper()
	done := make(chan error, 1)
	go func() { done <- f(r.Context()) }()
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		if err := check(); err != nil {
			r.Errorf("meanwhile: %v", err)
			check = func() error { return nil } // report it once
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

// pause returns a function that waits for a duration or until ctx ends.
func pause(duration time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(duration)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// get gets a Secret from the store's memory, without waiting.
func (r *rig) get(name string) (*corev1.Secret, error) {
	return r.store.Get(endedContext, r.namespace, name)
}

// endedContext is a context that has ended.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// agrees returns nil if Get returns the server's object want, or NotFound if want is nil.
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

// same reports whether describe returns the same text for two states. It is faster: during compares a thousand objects
// every few milliseconds.
func same(a, b *corev1.Secret) bool {
	return a.ResourceVersion == b.ResourceVersion && a.UID == b.UID && bytes.Equal(a.Data["value"], b.Data["value"])
}

// describe returns a text that is different for each state of an object.
func describe(secret *corev1.Secret) string {
	if secret == nil {
		return "none"
	}
	return fmt.Sprintf("version %s of %s with %q", secret.ResourceVersion, secret.UID, secret.Data["value"])
}

// allAgree returns nil if Get agrees with want for every name.
func (r *rig) allAgree(names []string, want map[string]*corev1.Secret) error {
	for _, name := range names {
		if err := r.agrees(name, want[name]); err != nil {
			return err
		}
	}
	return nil
}

// converged waits until every Get agrees with the server and every stream is healthy, and returns how long that took.
// The objects must not change meanwhile.
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
		if served := s.Phase == objectcache.PhaseServing || s.Phase == objectcache.PhaseAbsent; !served || !s.NotUpdatedSince.IsZero() {
			return fmt.Errorf("got phase %s, not updated since %v (%w), want a healthy one", s.Phase, s.NotUpdatedSince, s.LastError)
		}
		return nil
	})
}

// all returns the first error of check for the statuses of the names.
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

// failing returns nil if the attempts of all names fail: there is nothing to serve, or it is not updated.
func (r *rig) failing(names []string, atLeast int) error {
	return r.all(names, func(s objectcache.Status) error {
		missed := s.Phase == objectcache.PhaseFailing || !s.NotUpdatedSince.IsZero()
		if !missed || s.Failures < atLeast || s.LastError == nil {
			return fmt.Errorf("got phase %s, not updated since %v, %d failures and error %w, want at least %d",
				s.Phase, s.NotUpdatedSince, s.Failures, s.LastError, atLeast)
		}
		return nil
	})
}
