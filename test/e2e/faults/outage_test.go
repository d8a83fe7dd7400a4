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

// test is one that leaves the cluster usable, so that others can use it too.
type test struct {
	name string
	run  func(*testing.T, *e2e.Cluster)
}

// runAll runs tests with one cluster.
func runAll(t *testing.T, tests []test) {
	cluster := e2e.New(t, e2e.Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.run(t, cluster) })
	}
}

// Faults of the server, and of all its connections.
func TestServer(t *testing.T) {
	t.Parallel()
	runAll(t, []test{
		{"kill", func(t *testing.T, c *e2e.Cluster) { testKill(t, c, "killed", c.Admin()) }},
		{"kill behind a balancer", func(t *testing.T, c *e2e.Cluster) {
			testKill(t, c, "killed behind a balancer", c.ThroughProxy(c.Admin()))
		}},
		{"down", testDown},
		{"restart", testRestart},
		{"pause", testPause},
		{"compaction", testCompaction},
		{"cuts", testCuts},
	})
}

// Faults of some requests, or of their answers.
func TestSomeRequests(t *testing.T) {
	t.Parallel()
	runAll(t, []test{
		{"forbidden", testForbidden},
		{"throttled", testThrottled},
		{"hanging", testHanging},
		{"invalid token", testInvalidToken},
		{"WatchList ended before the first event", func(t *testing.T, c *e2e.Cluster) { testEarlyEnd(t, c, "before the first event", 0) }},
		{"WatchList ended within an event", func(t *testing.T, c *e2e.Cluster) { testEarlyEnd(t, c, "within an event", 20) }},
		{"list allowed", testListAllowed},
		{"watches answered with 503", func(t *testing.T, c *e2e.Cluster) { testUnwatchable(t, c, "503") }},
		{"watches answered with 429", func(t *testing.T, c *e2e.Cluster) { testUnwatchable(t, c, "429") }},
		{"watches closed", func(t *testing.T, c *e2e.Cluster) { testUnwatchable(t, c, "a closed connection") }},
		{"lost answers", testLostAnswer},
	})
}

// shared is the namespace of the tests that share a cluster. To create its objects takes longer than most faults.
const shared = "shared"

// The API server is killed. The last state is served, Status reports the outage, and the number of attempts is bounded.
// Without the server, connections are refused, or a balancer accepts and closes them.
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
	r.during(pause(6*time.Second), served)
	if err := r.all(names, func(s objectcache.Status) error {
		if s.LastContact.IsZero() || s.LastContact.After(dead) {
			return fmt.Errorf("got the last contact at %v, want one before the server died at %v", s.LastContact, dead)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	outage, sent, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	r.observe(fault, "attempts within the back-off limit", sent, outage)

	r.during(cluster.APIServer.Restart, served)
	r.observe(fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	r.observe(fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	changed := r.change(names)
	took = r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// The API server is down for ten seconds. Few attempts are made meanwhile, and afterwards all streams are soon open
// again.
func testDown(t *testing.T, cluster *e2e.Cluster) {
	const fault = "API server down for 10 s"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	r.requests.reset()
	began := time.Now()
	cluster.APIServer.Kill()
	r.during(pause(10*time.Second), served)
	if err := r.failing(names, 1); err != nil {
		t.Error(err)
	}
	outage, sent, err := r.requests.since(began)
	if err != nil {
		t.Error(err)
	}
	r.observe(fault, "attempts within the back-off limit", sent, outage)
	r.during(cluster.APIServer.Restart, served)
	r.observe(fault, "last state served throughout", "by every Get", time.Since(began))
	took := r.converged(names)
	r.observe(fault, "all streams are open again", fmt.Sprintf("with %d requests", r.requests.sent.Load()), took)
	changed := r.change(names)
	took = r.converged(names)
	r.observe(fault, "newest state of all is served", changed, took)
}

// The API server restarts gracefully: streams end with an answer, and Get always serves the last state.
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

// A paused server does not answer. A waiting Get returns when its context ends. A Get with a longer timeout returns the
// object when the server resumes.
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
	long := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		_, err := r.store.Get(ctx, r.namespace, "new")
		long <- err
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
	r.observe(fault, "a waiting Get ends with its context", "deadline exceeded, not synced; others served", time.Since(began))
	if err := cluster.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	if err := <-long; err != nil {
		t.Errorf("Get with a longer timeout: got error %v, want none", err)
	}
	if err := r.agrees("new", want); err != nil {
		t.Error(err)
	}
	r.observe(fault, "a Get with a longer timeout succeeds once it resumes", "the object", time.Since(resumed))
	r.update("second", names...)
	r.converged(append(names, "new"))
}
