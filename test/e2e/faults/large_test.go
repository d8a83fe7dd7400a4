// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// Large objects whose streams break are not transferred again, unless they have changed.
func TestLarge(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{})
	of100, of1000 := 500, 100
	if testing.Short() {
		of100, of1000 = 100, 40
	}
	for size, objects := range map[int]int{100_000: of100, 1_000_000: of1000} {
		t.Run(fmt.Sprintf("%d of %d kB", objects, size/1000), func(t *testing.T) {
			testLargeCut(t, cluster, objects, size)
		})
	}
	t.Run("restored", func(t *testing.T) { testLargeRestore(t, cluster) })
}

// large adds data of a size to a Secret.
func large(size int) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data["large"] = bytes.Repeat([]byte("x"), size) }
}

// prepareLarge creates n Secrets of a size, references them, and waits until they are watched.
func (r *rig) prepareLarge(n, size int) (names []string) {
	r.Helper()
	for i := range n {
		names = append(names, fmt.Sprintf("large-%04d", i))
	}
	r.each(names, func(ctx context.Context, name string) error {
		_, err := r.admin.CoreV1().Secrets(r.namespace).Create(ctx, secret(name, "first", large(size)), createOptions)
		return err
	})
	r.reference(names...)
	r.converged(names)
	return names
}

// updateLarge gives Secrets of a size a value.
func (r *rig) updateLarge(size int, value string, names ...string) {
	r.Helper()
	r.each(names, func(ctx context.Context, name string) error {
		_, err := r.admin.CoreV1().Secrets(r.namespace).Update(ctx, secret(name, value, large(size)), updateOptions)
		return err
	})
}

// testLargeCut cuts the connections, and counts the bytes until each stream is open again.
func testLargeCut(t *testing.T, cluster *e2e.Cluster, n, size int) {
	fault := fmt.Sprintf("connections cut, %d objects of %d kB", n, size/1000)
	r := newRig(t, cluster, fmt.Sprintf("large-%d", size), nil, objectcache.WatchOptions{})
	names := r.prepareLarge(n, size)
	before := r.onServer()
	pointers := map[string]*corev1.Secret{}
	for _, name := range names {
		pointers[name], _ = r.get(name)
	}
	r.requests.reset()
	cpu, began := cpuTime(t), time.Now()
	r.cluster.Proxy.Cut()
	took := r.eventually(func() error { return r.fresh(names, began) })
	received := r.requests.received.Load()
	t.Logf("%s: %d bytes, %v CPU, %v", fault, received, (cpuTime(t) - cpu).Round(time.Millisecond), took)
	// A certificate and some headers for each connection, and 4 kB for each stream.
	if limit := int64(500_000 + 4_000*n); received > limit {
		t.Errorf("%s: got %d bytes, want %d at most", fault, received, limit)
	}
	for _, name := range names {
		if after, _ := r.get(name); after != pointers[name] {
			t.Fatalf("%s: got another pointer for the same state", name)
		}
	}
	r.observe(fault, "streams are open without the objects", fmt.Sprintf("%d kB", received/1000), took)

	r.isolate()
	third := n / 3
	r.updateLarge(size, "second", names[:third]...)
	r.remove(names[third : third+10]...)
	r.replace("recreated", names[third+10:third+20]...)
	r.reconnect()
	took = r.converged(names)
	r.observe(fault, "what changed meanwhile arrives", fmt.Sprintf("%d changed", third+20), took)
	if last := names[n-1]; describe(r.onServer()[last]) != describe(before[last]) {
		t.Fatalf("%s has changed", last)
	}
	r.updateLarge(size, "third", names[n-10:]...)
	r.converged(names)
	r.remove(r.existing()...) // etcd is limited
}

// existing returns the names of the Secrets on the server.
func (r *rig) existing() (names []string) {
	for name := range r.onServer() {
		names = append(names, name)
	}
	return names
}

// fresh returns nil if each stream has been opened since a time.
func (r *rig) fresh(names []string, since time.Time) error {
	if err := r.all(names, func(s objectcache.Status) error {
		if s.LastContact.Before(since) {
			return fmt.Errorf("the last contact was %v before the cut", since.Sub(s.LastContact))
		}
		return nil
	}); err != nil {
		return err
	}
	return r.watching(names)
}

// testLargeRestore restores etcd while the streams of large objects are broken, and overtakes the versions that were
// seen: a plain watch would miss that, and a list of metadata shows it.
func testLargeRestore(t *testing.T, cluster *e2e.Cluster) {
	for _, overtaken := range []bool{false, true} {
		fault := fmt.Sprintf("etcd restored, large objects, overtaken=%v", overtaken)
		r := newRig(t, cluster, fmt.Sprintf("large-restored-%v", overtaken), nil, objectcache.WatchOptions{})
		names := r.prepareLarge(50, 100_000)
		snapshot, err := cluster.Snapshot(r.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.updateLarge(100_000, "lost", names[:25]...)
		r.converged(names)
		r.isolate()
		if err := cluster.Restore(r.Context(), snapshot); err != nil {
			t.Fatal(err)
		}
		r.put("other", "first")
		for i := range 100 {
			if overtaken {
				r.update(fmt.Sprint(i), "other")
			}
		}
		r.updateLarge(100_000, "kept", names[:5]...)
		r.reconnect()
		took := r.converged(names)
		r.observe(fault, "converges although versions went back", "every object", took)
		r.updateLarge(100_000, "last", names...)
		r.converged(names)
		r.stop()
	}
}

// cpuTime returns how much CPU time this process has used.
func cpuTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
