// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// viewRig does random things to one object.
type viewRig struct {
	*testing.T
	*WatchStore[*corev1.Secret]

	random  *rand.Rand
	version int
	old     []*objectWatch[*corev1.Secret] // watches that were replaced or stopped
}

// secret returns a secret of a version that may be older than what was seen.
func (r *viewRig) secret() *corev1.Secret {
	r.version++
	return testSecret(strconv.Itoa(max(1, r.version-r.random.IntN(3))), r.random.IntN(3) == 0)
}

// write calls a random method of a watch as its reflector does.
func (r *viewRig) write(w *objectWatch[*corev1.Secret]) {
	object := r.secret()
	switch r.random.IntN(7) {
	case 0:
		_ = w.Add(object)
	case 1:
		_ = w.Update(object)
	case 2:
		_ = w.Delete(object)
	case 3:
		_ = w.Replace([]any{object}, object.ResourceVersion)
	case 4:
		_ = w.Replace(nil, object.ResourceVersion)
	case 5:
		_ = w.TakeBookmark(object.ResourceVersion)
	case 6:
		w.NewEpoch()
	}
}

// step does something, and returns what.
func (r *viewRig) step() string {
	owner := types.UID(fmt.Sprint("pod-", r.random.IntN(3)))
	e := r.entry(testKey)
	if e == nil {
		r.AddReference(testKey.Namespace, testKey.Name, owner)
		return "first owner"
	}
	w := e.watch.Load()
	switch n := r.random.IntN(10); {
	case n <= 1:
		r.AddReference(testKey.Namespace, testKey.Name, owner)
		return "owner"
	case n == 2:
		r.DeleteReference(testKey.Namespace, testKey.Name, owner)
		return "owner gone"
	case n == 3:
		_, _ = r.TryGet(testKey.Namespace, testKey.Name)
		return "TryGet"
	case n == 4 && len(r.old) > 0:
		return r.lateWrite(e)
	case w == nil:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.startLocked(e)
		return "start"
	case n <= 6:
		r.write(w)
		return "write"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old = append(r.old, w)
	switch r.random.IntN(4) {
	case 0:
		r.startLocked(e)
		return "another watch"
	case 1:
		r.stopLocked(e, errIdle)
		return "idle"
	case 2:
		object := r.secret()
		w.hedge.End(r.storeHedgedLocked(hedge[*corev1.Secret]{watch: w, began: time.Now(), readFor: e.owners.Reads}, states.State[*corev1.Secret]{
			Object: object, Exists: true, Synced: true, ResourceVersion: object.ResourceVersion,
		}), r.now())
		return "hedged read"
	}
	status := reflector.Status{Synced: e.state().Synced, ReadFor: e.owners.Reads, LastContact: time.Now(), ResourceVersion: e.order.Version()}
	w.recordLocked(status)
	r.settleLocked(e, w, status)
	return "change"
}

// lateWrite lets a watch write that is not the present one, which must change nothing.
func (r *viewRig) lateWrite(e *entry[*corev1.Secret]) string {
	w := r.old[r.random.IntN(len(r.old))]
	if e.watch.Load() == w {
		return "none"
	}
	view, order := e.view.Load(), e.order
	r.write(w)
	if e.view.Load() != view || e.order != order {
		r.Errorf("a watch that has ended wrote %v after %v", e.state(), view)
	}
	return "late write"
}

// check compares the view with what it must be.
func (r *viewRig) check() {
	e := r.entry(testKey)
	if e == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v, w := e.view.Load(), e.watch.Load()
	if w == nil && (e.live || e.noticed || e.readFor > 0 || e.contact.Load() > 0) {
		r.Error("something is known of an object without a watch")
	}
	switch {
	case v == nil && e.immutable:
		r.Errorf("an object of which nothing is known is immutable")
	case v == nil:
	case w == nil:
		r.Errorf("got the state %v, want none without a watch", v.state)
	default:
		if want := v.state.Exists && v.state.Synced && *v.state.Object.Immutable; e.immutable != want {
			r.Errorf("immutable: got %v, want %v", e.immutable, want)
		}
		facts, state := r.factsLocked(e, w)
		d := r.demandOfAllLocked(e)
		verdict, _ := d.Answer(&facts, -1, time.Now())
		if serves := verdict == engine.Serve; v.ready != (serves && !(r.options.MaxStaleness > 0 && !e.immutable)) || v.state != state {
			r.Errorf("ready: got %v, and a Get that waits: %v", v.ready, verdict)
		}
	}
}

// Whatever happens to an object, its view is what a Get that waits would find out, HasSynced is as its status, and what
// a watch writes after its end is dropped.
func TestViewIsUpToDate(t *testing.T) {
	for seed := range uint64(300) {
		r := &viewRig{T: t, WatchStore: newTestStore(t, WatchOptions{MaxStaleness: time.Duration(seed%2) * time.Hour, ImmutableRecheck: -1}), random: rand.New(rand.NewPCG(seed, 0))}
		var steps []string
		for range 60 {
			steps = append(steps, r.step())
			r.check()
			status, _ := r.Status(testKey.Namespace, testKey.Name)
			if got := r.HasSynced(testKey.Namespace, testKey.Name); got != status.Synced {
				t.Errorf("HasSynced: got %v, and Status.Synced %v", got, status.Synced)
			}
			if t.Failed() {
				t.Fatalf("seed %d: after %q", seed, steps)
			}
		}
		for r.entry(testKey) != nil {
			for i := range 3 {
				r.DeleteReference(testKey.Namespace, testKey.Name, types.UID(fmt.Sprint("pod-", i)))
			}
		}
		waitForBackground(r.WatchStore)
	}
}

// A GET stores the object while a read of the same object compares content. That is no other
// content under one version, which would prove that the server was restored from a backup.
func TestReadBesideAHedgedRead(t *testing.T) {
	for range 20 {
		s := newTestStore(t, WatchOptions{})
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		e := s.entry(testKey)
		w := e.watch.Load()
		s.mu.Lock()
		var read sync.WaitGroup
		read.Go(func() { _ = w.Replace([]any{testSecret("5", false)}, "7") })
		for range 1000 {
			runtime.Gosched() // until it waits for the lock
		}
		object := testSecret("5", false)
		w.hedge.End(s.storeHedgedLocked(hedge[*corev1.Secret]{watch: w, began: time.Now()}, states.State[*corev1.Secret]{
			Object: object, Exists: true, Synced: true, ResourceVersion: "5",
		}), s.now())
		s.mu.Unlock()
		read.Wait()
		if got := e.state(); got.Epoch != 0 || got.Object != object {
			t.Errorf("got %v, want the object of the GET in epoch 0", got)
		}
		s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
		waitForBackground(s)
	}
}
