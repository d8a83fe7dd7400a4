// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// What these faults leave of a cluster is as good as new, so they share one.
func TestSharedCluster(t *testing.T) {
	cluster := e2e.New(t, e2e.Options{})
	for _, test := range []struct {
		name string
		run  func(*testing.T, *e2e.Cluster)
	}{
		{"kill", func(t *testing.T, c *e2e.Cluster) { testKill(t, c, "killed", c.Admin()) }},
		{"kill behind a balancer", func(t *testing.T, c *e2e.Cluster) {
			testKill(t, c, "killed behind a balancer", c.ThroughProxy(c.Admin()))
		}},
		{"away with many references", testAway},
		{"restart", testRestart},
		{"pause", testPause},
		{"compaction", testCompaction},
		{"cuts", testCuts},
		{"forbidden", testForbidden},
		{"throttled", testThrottled},
		{"hanging", testHanging},
		{"dead token", testDeadToken},
		{"WatchList ended empty", func(t *testing.T, c *e2e.Cluster) { testEarlyEnd(t, c, "empty", 0) }},
		{"WatchList ended in half an event", func(t *testing.T, c *e2e.Cluster) { testEarlyEnd(t, c, "in half an event", 20) }},
		{"list allowed", testListAllowed},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}

// shared is the namespace of the tests that share a cluster: creating its objects takes longer than most faults.
const shared = "shared"

// kill -9 of the API server: the last state is served, Status reports the outage, and nobody hammers the server's
// address, where connections are refused, or accepted and closed by a balancer in between.
func testKill(t *testing.T, cluster *e2e.Cluster, how string, config *rest.Config) {
	fault := "API server " + how
	r := newRig(t, cluster, shared, config, objectcache.WatchOptions{})
	names := r.create(many)
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	r.requests.reset()
	began := time.Now()
	cluster.APIServer.Kill()
	dead := time.Now()
	noticed := r.eventually(func() error { return errors.Join(served(), r.failing(names, 1)) })
	r.observe(fault, "reported by Status of each object", "Failing, with a cause", noticed)
	r.during(last(6*time.Second), served)
	if err := r.all(names, func(s objectcache.Status) error {
		if s.LastContact.IsZero() || s.LastContact.After(dead) {
			return fmt.Errorf("got the last contact at %v, want one before the server died at %v", s.LastContact, dead)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	outage, tried, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	r.observe(fault, "opens inside the back-off envelope", tried, outage)

	r.during(cluster.APIServer.Restart, served)
	r.observe(fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	r.observe(fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	changed := r.change(names)
	took = r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// The API server is away for ten seconds while many objects are referenced: hardly any of them asks for it, and yet all
// streams are soon open again.
func testAway(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server away for 10 s"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	r.requests.reset()
	began := time.Now()
	cluster.APIServer.Kill()
	r.during(last(10*time.Second), served)
	if err := r.failing(names, 1); err != nil {
		t.Error(err)
	}
	outage, tried, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	r.observe(fault, "opens inside the back-off envelope", tried, outage)
	r.during(cluster.APIServer.Restart, served)
	r.observe(fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	r.observe(fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	changed := r.change(names)
	took = r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// A restart in order: streams end properly, and Get never notices.
func testRestart(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server restarted"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	before := r.onServer()
	r.requests.reset()
	began := time.Now()
	r.during(cluster.APIServer.Restart, func() error { return r.allAgree(names, before) })
	r.observe(fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	r.observe(fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	changed := r.change(names)
	took = r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// A server that stands still answers nobody: a Get that waits follows its context, and one that has more time gets
// its answer when the server goes on.
func testPause(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server paused for 5 s"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	before := r.onServer()
	want := r.put("new", "first")
	if err := cluster.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.store.AddReference(r.namespace, "new", owner)
	patient := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		_, err := r.store.Get(ctx, r.namespace, "new")
		patient <- err
	}()
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	r.during(func(context.Context) error {
		_, err := r.store.Get(ctx, r.namespace, "new")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, objectcache.ErrNotSynced) {
			return fmt.Errorf("got %w, want %w and %w", err, context.DeadlineExceeded, objectcache.ErrNotSynced)
		}
		return nil
	}, func() error { return r.allAgree(names, before) })
	r.observe(fault, "a waiting Get follows its context", "deadline exceeded, not synced; others served", time.Since(began))
	if err := cluster.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	if err := <-patient; err != nil {
		t.Errorf("the Get that had time: got %v, want none", err)
	}
	if err := r.agrees("new", want); err != nil {
		t.Error(err)
	}
	r.observe(fault, "a Get with more time succeeds once it goes on", "the object", time.Since(resumed))
	r.update("second", names...)
	r.converged(append(names, "new"))
}
