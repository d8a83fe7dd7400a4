// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}

// kill -9 of the API server: the last state is served, the outage is told, and nobody hammers the server's address,
// where connections are refused, or accepted and closed by a balancer in between.
func testKill(t *testing.T, cluster *e2e.Cluster, how string, config *rest.Config) {
	fault := "API server " + how
	r := newRig(t, cluster, strings.ReplaceAll(how, " ", "-"), config, objectcache.WatchOptions{})
	names := r.create(50)
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	r.requests.reset()
	began := time.Now()
	cluster.APIServer.Kill()
	dead := time.Now()
	noticed := r.eventually(func() error { return errors.Join(served(), r.failing(names, 1)) })
	observe(t, fault, "told by Status of each object", "Failing, with a cause", noticed)
	r.during(last(6*time.Second), served)
	if err := r.all(names, func(s objectcache.Status) error {
		if s.LastContact.IsZero() || s.LastContact.After(dead) {
			return fmt.Errorf("got the last contact at %v, want one before the server died at %v", s.LastContact, dead)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	outage, told, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	observe(t, fault, "opens inside the back-off envelope", told, outage)

	r.during(cluster.APIServer.Restart, served)
	observe(t, fault, "last state served throughout", "by every Get of 50 objects", time.Since(began))
	up := time.Now()
	r.change(names)
	r.converged(names)
	observe(t, fault, "converges once it is back", "32 of 50 changed after the restart", time.Since(up))
}

// The API server is away for ten seconds while five hundred objects are referenced: hardly anybody asks for it, and yet
// all know soon that it is back.
func testAway(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server away for 10 s, 500 objects"
	r := newRig(t, cluster, "away", nil, objectcache.WatchOptions{})
	names := r.create(500)
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	r.requests.reset()
	began := time.Now()
	cluster.APIServer.Kill()
	r.during(last(10*time.Second), served)
	if err := r.failing(names, 1); err != nil {
		t.Error(err)
	}
	outage, told, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	observe(t, fault, "opens inside the back-off envelope", told, outage)
	r.during(cluster.APIServer.Restart, served)
	observe(t, fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	observe(t, fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	r.change(names)
	took = r.converged(names)
	observe(t, fault, "newest state of all is served", "498 of 500 changed after the restart", took)
}

// A restart in order: streams end properly, and Get never notices.
func testRestart(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server restarted"
	r := newRig(t, cluster, "restart", nil, objectcache.WatchOptions{})
	names := r.create(20)
	before := r.onServer()
	began := time.Now()
	r.during(cluster.APIServer.Restart, func() error { return r.allAgree(names, before) })
	observe(t, fault, "last state served throughout", "by every Get", time.Since(began))
	up := time.Now()
	r.change(names)
	r.converged(names)
	observe(t, fault, "converges once it is back", "18 of 20 changed after the restart", time.Since(up))
}

// A server that stands still answers nobody: a Get that waits follows its context, and one that has more time gets
// its answer when the server goes on.
func testPause(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server paused for 5 s"
	r := newRig(t, cluster, "pause", nil, objectcache.WatchOptions{})
	names := r.create(5)
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
	observe(t, fault, "a waiting Get follows its context", "deadline exceeded, not synced; others served", time.Since(began))
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
	observe(t, fault, "a Get with more time succeeds once it goes on", "the object", time.Since(resumed))
	r.update("second", names...)
	r.converged(append(names, "new"))
}
