// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// isolate disconnects the store: its streams break, and new connections get no answer.
func (r *rig) isolate() {
	r.cluster.Proxy.BlackHole(true)
	r.cluster.Proxy.Cut()
}

// reconnect ends isolate, and closes the connections that were opened meanwhile.
func (r *rig) reconnect() {
	r.cluster.Proxy.BlackHole(false)
	r.cluster.Proxy.Cut()
}

// While the store is disconnected, objects change and old versions are removed from etcd and from the API server's
// watch cache. A subscriber still gets the newest state of every object.
func testCompaction(t *testing.T, cluster *e2e.Cluster) {
	const fault = "compaction while disconnected"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	subscriber := r.subscribe()
	r.eventually(func() error { return subscriber.agrees(names, r.onServer()) })
	r.isolate()
	changed := r.change(names)
	r.update("updated again", names[0])
	if err := cluster.Compact(r.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cluster.APIServer.Restart(r.Context()); err != nil {
		t.Fatal(err)
	}
	r.reconnect()
	took := r.converged(names)
	r.observe(fault, "converges", changed, took)
	want := r.onServer()
	r.eventually(func() error { return subscriber.agrees(names, want) })
	r.observe(fault, "no gap for a subscriber of Changes", fmt.Sprintf("newest state of each in %d changes", subscriber.changes()), took)
}

// The network breaks repeatedly while objects change: versions never go back, and every object reaches its newest
// state.
func testCuts(t *testing.T, cluster *e2e.Cluster) {
	const (
		fault  = "connections cut at random"
		writes = 200
	)
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	subscriber := r.subscribe()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ctx, cancel := context.WithCancel(r.Context())
	cutting := make(chan int, 1)
	go func() { cutting <- cutAtRandom(ctx, cluster.Proxy, seed) }()
	last := map[string]*corev1.Secret{}
	r.during(func(ctx context.Context) error {
		return r.writeAtRandom(ctx, random, names, writes)
	}, func() error { return r.neverBack(names, last) })
	cancel()
	cuts := <-cutting
	took := r.converged(names)
	if err := r.neverBack(names, last); err != nil {
		t.Error(err)
	}
	r.observe(fault, "converges; versions never go back", fmt.Sprintf("%d writes, %d cuts", writes, cuts), took)
	want := r.onServer()
	r.eventually(func() error { return subscriber.agrees(names, want) })
}

// cutAtRandom cuts all connections every 0 to 300 ms until ctx ends, and returns the number of cuts.
func cutAtRandom(ctx context.Context, proxy *e2e.Proxy, seed uint64) (cuts int) {
	random := rand.New(rand.NewPCG(seed, 1))
	for {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
			proxy.Cut()
			cuts++
		case <-ctx.Done():
			return cuts
		}
	}
}

// writeAtRandom does n writes, 25 ms apart. A tenth of them recreates an object, the others update one.
func (r *rig) writeAtRandom(ctx context.Context, random *rand.Rand, names []string, n int) error {
	ticker := time.NewTicker(25 * time.Millisecond)
	defer ticker.Stop()
	secrets := r.admin.CoreV1().Secrets(r.namespace)
	for i := range n {
		object := secret(names[random.IntN(len(names))], fmt.Sprint(i))
		var err error
		if random.IntN(10) > 0 {
			_, err = secrets.Update(ctx, object, updateOptions)
		} else if err = secrets.Delete(ctx, object.Name, deleteOptions); err == nil {
			_, err = secrets.Create(ctx, object, createOptions)
		}
		if err != nil {
			return fmt.Errorf("write %d of %s: %w", i, object.Name, err)
		}
		<-ticker.C
	}
	return nil
}

// neverBack gets every object, and returns an error if it is older than in last. It updates last. A recreated object
// may be absent for a moment.
func (r *rig) neverBack(names []string, last map[string]*corev1.Secret) error {
	for _, name := range names {
		got, err := r.get(name)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		if before := last[name]; before != nil {
			if err := goesBack(before, got); err != nil {
				return err
			}
		}
		last[name] = got
	}
	return nil
}

// A connection is open at both ends and transmits nothing. The health check of client-go's HTTP/2 transport notices it
// after 30 s of silence and 15 s without an answer to a ping. Before that, only a Get with MaxStaleness fails.
//
// The test is not parallel: two stores with many references almost reach the race detector's limit of goroutines.
func TestHalfOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const fault = "half-open connection"
	cluster := e2e.New(t, e2e.Options{})
	r := newRig(t, cluster, "half-open", nil, objectcache.WatchOptions{})
	names := r.create(many)
	strict := newRig(t, cluster, "half-open", nil, objectcache.WatchOptions{MaxStaleness: 3 * time.Second})
	name := names[len(names)-1] // does not change
	strict.reference(names...)
	strict.eventually(func() error { return strict.watching(names) })
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	cluster.Proxy.BlackHole(true)
	began := time.Now()
	changed := r.change(names)
	r.eventually(func() error { return errors.Join(served(), strict.isStale(name)) })
	strict.observe(fault, "MaxStaleness 3 s: Get returns ErrStale", "stale, not synced, deadline exceeded", time.Since(began))
	r.eventually(func() error { return errors.Join(served(), r.failing(names, 1)) })
	r.observe(fault, "noticed within 45 s, last state served", causeOf(r.status(names[0])), time.Since(began))
	strict.eventually(func() error {
		return errors.Join(strict.failing([]string{name}, 1), strict.isStaleWithCause(name))
	})
	strict.observe(fault, "MaxStaleness 3 s: Get returns the cause", "the cause is joined", time.Since(began))

	cluster.Proxy.BlackHole(false)
	repaired := time.Now()
	took := r.converged(names)
	r.observe(fault, "converges once it is repaired", changed, took)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if _, err := strict.store.Get(ctx, strict.namespace, name); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	strict.observe(fault, "MaxStaleness 3 s: Get succeeds again", "the object", time.Since(repaired))
}

// causeOf describes a failure without addresses, which differ from run to run.
func causeOf(s objectcache.Status) string {
	return fmt.Sprintf("%s, %s", s.Phase, cmp.Or(apierrors.ReasonForError(s.LastError), metav1.StatusReason("Connection")))
}

// isStale returns nil if a Get with a timeout of a second returns ErrStale, ErrNotSynced and DeadlineExceeded.
func (r *rig) isStale(name string) error {
	err := r.waitingGet(name)
	for _, want := range []error{objectcache.ErrStale, objectcache.ErrNotSynced, context.DeadlineExceeded} {
		if !errors.Is(err, want) {
			return fmt.Errorf("got error %w, want one that is %w", err, want)
		}
	}
	return nil
}

// isStaleWithCause returns nil if a Get with a timeout of a second returns ErrStale and the LastError of Status.
func (r *rig) isStaleWithCause(name string) error {
	cause := r.status(name).LastError
	if err := r.waitingGet(name); !errors.Is(err, objectcache.ErrStale) || !errors.Is(err, cause) {
		return fmt.Errorf("got error %w, want one that is %w and %w", err, objectcache.ErrStale, cause)
	}
	return nil
}

func (r *rig) waitingGet(name string) error {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	_, err := r.store.Get(ctx, r.namespace, name)
	return err
}
