// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// condition is one under which verbs fail: a property of the objects, of the network, or of the server.
type condition struct {
	// begin makes a rig meet the condition, until end is called.
	begin func(*rig) (end func())
	// later is how much later than promised a state may be fresh, and a Get answered.
	later time.Duration
}

// conditions are all of them. The first one is that of most tests: small objects, and a quiet server nearby.
var conditions = map[string]condition{
	"":          {begin: func(*rig) func() { return func() {} }},
	"busy etcd": {begin: (*rig).churn},
	"100 kB":    {begin: func(r *rig) func() { r.padding = bytes.Repeat([]byte("x"), 100_000); return func() {} }},
	// Each attempt makes up to three requests, one after the other.
	"answers 8 s late": {begin: func(r *rig) func() { r.delay = 8 * time.Second; return func() {} }, later: time.Minute},
	// A load balancer sends each request to either of two API servers.
	"one of two API servers": {begin: func(r *rig) func() { r.halfSick = true; return func() {} }},
}

// churn writes an object that nobody references, every 5 s until stop is called: the versions of all objects advance.
func (r *rig) churn() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
		_, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), other, metav1.CreateOptions{})
		for i := 0; err == nil && ctx.Err() == nil; i++ {
			other.Data = map[string][]byte{"write": fmt.Append(nil, i)}
			_, err = r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), other, metav1.UpdateOptions{})
			sleepFor(ctx, 5*time.Second)
		}
		if err != nil {
			r.t.Errorf("foreign writes: %v", err)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

func testGetsWorkAlone(t *testing.T, r *rig, list, watch string, known, others bool, c condition) {
	defer c.begin(r)()
	fresh, live := readable(list, watch)
	fresh, live = fresh+c.later, live+c.later
	r.create("tls")
	if others {
		for i := range 3 {
			name := fmt.Sprint("other-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
		}
	}
	refer := func() { r.AddReference(namespace, "tls", "pod"); synctest.Wait() }
	if known {
		refer()
		time.Sleep(time.Minute)
	}
	reads := r.failVerbs(list, watch, func(name string) bool { return name == "tls" || !others })
	r.server.CloseStreams(nil)
	r.update("tls", "one")
	if !known {
		refer()
	}
	r.freshWithin(fresh, "one", "tls")
	time.Sleep(10 * time.Minute)
	r.update("tls", "two")
	r.freshWithin(fresh, "two", "tls")
	if status, _ := r.Status(namespace, "tls"); !r.halfSick && (status.Stream != objectcache.StreamPolled || status.Phase != objectcache.PhaseServing || status.LastError == nil) {
		t.Errorf("status: got %+v, want an object that is polled, is served, and a cause", status)
	}
	for range 5 {
		time.Sleep(7 * time.Minute)
		r.update("tls", "live")
		ctx, cancel := context.WithTimeout(t.Context(), live)
		if got, err := r.GetWithOptions(ctx, namespace, "tls", objectcache.GetOptions{Live: true}); err != nil || string(got.Data["password"]) != "live" {
			t.Errorf("a live Get: got %v, %v within %v", got, err, live)
		}
		cancel()
		r.update("tls", "not")
	}
	before := reads.Load()
	time.Sleep(time.Hour)
	if got := reads.Load() - before; got > 400 {
		t.Errorf("got %d requests in an hour, want 400 at most", got)
	}
	r.server.Intercept(nil)
	time.Sleep(time.Hour + 5*time.Minute)
	if status, _ := r.Status(namespace, "tls"); status.Stream != objectcache.StreamNamed {
		t.Errorf("an hour after all works again: got %+v, want a stream", status)
	}
}
