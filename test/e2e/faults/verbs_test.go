// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// Lists and watches of a resource fail, and GETs of its objects work. A new object is served, changes are seen, and
// Status says why there is no stream. When all works again, there are streams.
func TestOnlyGetsWork(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{})
	tests := []test{{"priority and fairness", testPriorityAndFairness}}
	if !testing.Short() { // the server closes streams half a minute after it has lost its watch cache, and asks for pauses
		tests = append(tests, test{"unreadable Secret", testUnreadableNeighbour}, test{"failing conversion", testFailingConversion})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, cluster)
		})
	}
}

// onlyGets is a store of objects, of which nothing but GETs works from begin until heal.
type onlyGets[T cache.Object] struct {
	*rig

	fault       string
	objects     *objectcache.WatchStore[T]
	write       func(ctx context.Context, name, value string) (version string, err error)
	begin, heal func(context.Context) error
	works       func(context.Context) error // nil if lists and watches work
}

func (o *onlyGets[T]) run() {
	o.Helper()
	o.timeout = 3 * time.Minute // it is promised
	names := []string{"known-0", "known-1", "known-2", "known-3", "known-4"}
	o.others = len(names) + 1
	versions := map[string]string{}
	put := func(name, value string) {
		o.Helper()
		version, err := o.write(o.Context(), name, value)
		if err != nil {
			o.Fatal(err)
		}
		versions[name] = version
	}
	for _, name := range names {
		put(name, "first")
		o.objects.AddReference(o.namespace, name, owner)
	}
	fresh := func(stream objectcache.StreamType) func() error {
		return func() error {
			for name, version := range versions {
				if err := o.fresh(name, version, stream); err != nil {
					return err
				}
			}
			return nil
		}
	}
	o.eventually(fresh(objectcache.StreamNamed))
	if err := o.begin(o.Context()); err != nil {
		o.Fatal(err)
	}
	began := time.Now()
	put("new", "first")
	for _, name := range names {
		put(name, "second")
	}
	o.objects.AddReference(o.namespace, "new", owner)
	ctx, cancel := context.WithTimeout(o.Context(), o.timeout)
	defer cancel()
	if got, err := o.objects.Get(ctx, o.namespace, "new"); err != nil || got.GetResourceVersion() != versions["new"] {
		o.Errorf("a new object: got %v and error %v, want version %s", got, err, versions["new"])
	}
	o.observe(o.fault, "a new object that a Get waits for", "served by GET", time.Since(began))
	o.eventually(fresh(objectcache.StreamPolled))
	took := time.Since(began)
	o.observe(o.fault, "newest state of all is served, and Status says why they are polled", "all", took)
	if o.works(o.Context()) == nil {
		o.Error("lists and watches work, want that they fail until the end")
	}
	if err := o.heal(o.Context()); err != nil {
		o.Fatal(err)
	}
	took = o.eventually(func() error { return o.works(o.Context()) })
	o.observe(o.fault, "lists and watches work once the cause has gone", "by a list", took)
	if testing.Short() {
		return // it takes another minute until there are streams
	}
	for name := range versions {
		put(name, "third")
	}
	took = o.eventually(fresh(objectcache.StreamNamed))
	o.observe(o.fault, "streams are open once lists and watches work", "all", took)
}

// fresh returns nil if Get returns a version of the object, and Status has the type of its stream, and a cause if it is
// polled.
func (o *onlyGets[T]) fresh(name, version string, stream objectcache.StreamType) error {
	got, err := o.objects.Get(endedContext, o.namespace, name)
	if err != nil || got.GetResourceVersion() != version {
		return fmt.Errorf("%s: got %v and error %w, want version %s", name, got, err, version)
	}
	status, _ := o.objects.Status(o.namespace, name)
	polled := stream == objectcache.StreamPolled
	if status.Stream != stream || status.Phase != objectcache.PhaseServing || polled && status.LastError == nil {
		return fmt.Errorf("%s: got %s, %s and error %w, want %s, Serving, and a cause if it is polled",
			name, status.Stream, status.Phase, status.LastError, stream)
	}
	return nil
}

// testLateEtcd: etcd answers an API server 3 s late. So lists, watches and GETs take seconds. Changes are seen, and new
// objects are served.
func testLateEtcd(t *testing.T, cluster *e2e.Cluster, replica *e2e.Replica) {
	const fault, late = "etcd answers 3 s late", 1500 * time.Millisecond
	config := cluster.Admin()
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, replica.Proxy.Addr())
	}
	r := newRig(t, cluster, "late-etcd", config, objectcache.WatchOptions{})
	names := r.create(20)
	replica.Etcd.Delay(late)
	defer replica.Etcd.Reset()
	began := time.Now()
	r.update("second", names...)
	want := r.onServer()
	r.eventually(func() error { return r.allAgree(names, want) })
	r.observe(fault, "newest state of all is served", "all changed", time.Since(began))
	added := addedNames(fault)[:2*batch]
	r.addObjects(fault, "", added)
	replica.Etcd.Reset()
	names = append(names, added...)
	r.update("third", names...)
	r.observe(fault, "converges once it is in time", "all changed", r.converged(names))
}
