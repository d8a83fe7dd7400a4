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

// isolate cuts the store off: its streams break, and new connections get no answer.
func (r *rig) isolate() {
	r.cluster.Proxy.BlackHole(true)
	r.cluster.Proxy.Cut()
}

// reconnect ends isolation. Connections that were begun in it are worth nothing, and go.
func (r *rig) reconnect() {
	r.cluster.Proxy.BlackHole(false)
	r.cluster.Proxy.Cut()
}

// While the streams are cut everything changes, etcd forgets what was before, and so does the API server's watch
// cache. A follower gets the newest state of every object all the same.
func testCompaction(t *testing.T, cluster *e2e.Cluster) {
	const fault = "compaction while cut off"
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	followed := r.follow()
	r.eventually(func() error { return followed.agrees(names, r.onServer()) })
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
	r.eventually(func() error { return followed.agrees(names, want) })
	r.observe(fault, "no gap for a follower of Changes", fmt.Sprintf("newest state of each in %d changes", followed.count()), took)
}

// The network breaks again and again while objects change: versions never go back, and no change is lost for good.
func testCuts(t *testing.T, cluster *e2e.Cluster) {
	const (
		fault  = "connections cut at random"
		writes = 200
	)
	r := newRig(t, cluster, shared, nil, objectcache.WatchOptions{})
	names := r.create(many)
	followed := r.follow()
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
	r.eventually(func() error { return followed.agrees(names, want) })
}

// cutAtRandom cuts every 0 to 300 ms until ctx ends, and returns how often it did.
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

// writeAtRandom makes n writes, 25 ms apart: mostly updates, and every tenth a recreation.
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

// neverBack gets every object, compares it with what was got last, and notes it there. A recreated object may be
// absent for a while.
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

// A connection that is open for both ends and carries nothing: the health check of client-go's HTTP/2 transport finds
// out, after 30 s of silence and 15 s without an answer to a ping. Until then only MaxStaleness makes a Get notice.
//
// It runs alone: two stores with many references are near the number of goroutines that the race detector bears.
func TestHalfOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const fault = "half-open connection"
	cluster := e2e.New(t, e2e.Options{})
	r := newRig(t, cluster, "half-open", nil, objectcache.WatchOptions{})
	names := r.create(many)
	strict := newRig(t, cluster, "half-open", nil, objectcache.WatchOptions{MaxStaleness: 3 * time.Second})
	asked := names[len(names)-1] // which does not change
	strict.reference(names...)
	strict.eventually(func() error { return strict.watching(names) })
	before := r.onServer()
	served := func() error { return r.allAgree(names, before) }

	cluster.Proxy.BlackHole(true)
	began := time.Now()
	changed := r.change(names)
	r.eventually(func() error { return errors.Join(served(), strict.isStale(asked)) })
	strict.observe(fault, "MaxStaleness 3 s: Get returns ErrStale", "stale, not synced, deadline exceeded", time.Since(began))
	r.eventually(func() error { return errors.Join(served(), r.failing(names, 1)) })
	r.observe(fault, "noticed within 45 s, last state served", causeOf(r.status(names[0])), time.Since(began))
	strict.eventually(func() error {
		return errors.Join(strict.failing([]string{asked}, 1), strict.saysWhy(asked))
	})
	strict.observe(fault, "MaxStaleness 3 s: Get returns the cause", "the cause is joined", time.Since(began))

	cluster.Proxy.BlackHole(false)
	mended := time.Now()
	took := r.converged(names)
	r.observe(fault, "converges once it is mended", changed, took)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := strict.store.Get(ctx, strict.namespace, asked); err != nil {
		t.Errorf("got error %v, want none", err)
	}
	strict.observe(fault, "MaxStaleness 3 s: Get answers again", "the object", time.Since(mended))
}

// causeOf describes a failure without the addresses in it, which differ from run to run.
func causeOf(s objectcache.Status) string {
	return fmt.Sprintf("%s, %s", s.Phase, cmp.Or(apierrors.ReasonForError(s.LastError), metav1.StatusReason("Connection")))
}

// isStale returns nil if a Get that waits a second ends as a Get does when the state is too old.
func (r *rig) isStale(name string) error {
	err := r.waitingGet(name)
	for _, want := range []error{objectcache.ErrStale, objectcache.ErrNotSynced, context.DeadlineExceeded} {
		if !errors.Is(err, want) {
			return fmt.Errorf("got error %w, want one that is %w", err, want)
		}
	}
	return nil
}

// saysWhy returns nil if a Get that waits for a second is stale and carries what Status says is the last failure.
func (r *rig) saysWhy(name string) error {
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
