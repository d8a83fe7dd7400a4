// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// Loops of a program that deletes and adds a reference again and again.

// readd deletes the only reference to an object, and adds it again.
func (r *rig) readd(name string) {
	r.DeleteReference(namespace, name, "pod")
	r.AddReference(namespace, name, "pod")
}

// requestsIn returns how many requests for Secrets come in a time.
func (r *rig) requestsIn(d time.Duration) int {
	before := r.secretRequests()
	time.Sleep(d)
	return r.secretRequests() - before
}

func (r *rig) secretRequests() (count int) {
	synctest.Wait()
	for _, request := range r.server.Requests() {
		if request.Resource == "secrets" && request.Verb != "create" {
			count++
		}
	}
	return count
}

// loop is a program whose references cause one another.
type loop struct {
	options objectcache.StoreOptions
	change  func(*corev1.Secret)                           // of the object
	refuse  *apierrors.StatusError                         // the answer to every read
	first   int                                            // requests in the first 5 s; default: 30
	timed   bool                                           // it waits for a time
	most    int                                            // requests in a minute; default: 100
	run     func(ctx context.Context, r *rig, name string) // default: the body of a range over Changes
}

var loops = map[string]loop{
	"body of Changes":  {options: objectcache.WatchOptions{}},
	"immutable object": {options: objectcache.WatchOptions{}, change: immutable},
	"forbidden object": {options: objectcache.WatchOptions{}, refuse: forbidden(), most: 10},
	"no grace":         {options: objectcache.WatchOptions{RefusalGrace: time.Nanosecond}, refuse: forbidden(), most: 10},
	"Retry-After": {options: objectcache.WatchOptions{}, refuse: apierrors.NewTooManyRequests("later", 5), first: 1, most: 15, timed: true, run: func(ctx context.Context, r *rig, name string) {
		for ctx.Err() == nil {
			r.readd(name)
			time.Sleep(10 * time.Millisecond)
		}
	}},
	"TryGet": {options: objectcache.WatchOptions{}, timed: true, run: func(ctx context.Context, r *rig, name string) {
		for ctx.Err() == nil {
			if _, err := r.TryGet(namespace, name); err == nil {
				r.readd(name)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}},
	"Get":         {options: objectcache.WatchOptions{}, run: getAndReadd},
	"Get, TTL":    {options: objectcache.TTLOptions{}, run: getAndReadd},
	"every 10 ms": {options: objectcache.WatchOptions{}, timed: true, run: func(ctx context.Context, r *rig, name string) { r.every(ctx, 10*time.Millisecond, name) }},
	"every 2 s":   {options: objectcache.WatchOptions{}, timed: true, run: func(ctx context.Context, r *rig, name string) { r.every(ctx, 2*time.Second, name) }},
}

func (r *rig) every(ctx context.Context, d time.Duration, name string) {
	for ctx.Err() == nil {
		time.Sleep(d)
		r.readd(name)
	}
}

func getAndReadd(ctx context.Context, r *rig, name string) {
	for ctx.Err() == nil {
		if _, err := r.Get(ctx, namespace, name); err != nil {
			return
		}
		r.readd(name)
	}
}

// A program that deletes and adds its own reference again and again is no load: the pause belongs to the object, and
// not to the reference.
func TestReaddedReferencesPause(t *testing.T) { testLoops(t, false) }

// It is so for a program that does this from time to time.
func TestReaddedReferencesOfATimerPause(t *testing.T) { testLoops(t, true) }

func testLoops(t *testing.T, timed bool) {
	for name, loop := range loops {
		if loop.timed != timed {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, loop.options, func(t *testing.T, r *rig) {
				defer r.startLoops(loop, "tls")()
				if got, most := r.requestsIn(5*time.Second), cmp.Or(loop.first, 30); got > most { // the first ones begin at once
					t.Errorf("requests in the first 5 s: got %d, want %d at most", got, most)
				}
				if got, most := r.requestsIn(time.Minute), cmp.Or(loop.most, 100); got > most || got == 0 {
					t.Errorf("requests in a minute: got %d, want 1 to %d", got, most)
				}
			})
		})
	}
}

// Many objects whose references are added again and again share a budget, and delay no other.
func TestThousandReaddedReferencesPause(t *testing.T) {
	crowd(t)
	for name, perSecond := range map[string]int{"body of Changes": 20, "no grace": 20, "every 2 s": 20, "Get": 180} {
		t.Run(name, func(t *testing.T) {
			objects := 300
			switch {
			case testmain.Race:
				objects = 40 // else it takes minutes
			case name == "body of Changes":
				objects = 1000
			}
			manyStreams(t)
			inBubble(t, loops[name].options, func(t *testing.T, r *rig) {
				r.create("other")
				names := make([]string, objects)
				for i := range names {
					names[i] = fmt.Sprint("looping-", i)
				}
				defer r.startLoops(loops[name], names...)()
				if got := r.requestsIn(10 * time.Second); got > 5*objects+10*perSecond {
					t.Errorf("requests in the first 10 s: got %d, want %d at most", got, 5*objects+10*perSecond)
				}
				if got := r.requestsIn(10 * time.Second); got > 10*perSecond+10 || got < 10 {
					t.Errorf("requests in 10 s: got %d, want %d a second at most", got, perSecond)
				}
				if r.refuse(nil); loops[name].refuse != nil {
					return // then all can be read, and are
				}
				r.AddReference(namespace, "other", "new")
				began := time.Now()
				if r.mustGet("other"); time.Since(began) > 100*time.Millisecond {
					t.Errorf("a Get of another object took %v, want none", time.Since(began))
				}
			})
		})
	}
}

// startLoops creates objects, references them and starts their loops. end ends the loops.
func (r *rig) startLoops(l loop, names ...string) (end func()) {
	for _, name := range names {
		if l.change != nil {
			r.create(name, l.change)
		} else {
			r.create(name)
		}
	}
	r.refuse(l.refuse)
	for _, name := range names {
		r.AddReference(namespace, name, "pod")
	}
	var loops sync.WaitGroup
	ctx, cancel := context.WithCancel(r.t.Context())
	if l.run == nil {
		loops.Go(func() {
			for change := range r.Changes(ctx) {
				r.readd(change.Key.Name)
			}
		})
	} else {
		for _, name := range names {
			loops.Go(func() { l.run(ctx, r, name) })
		}
	}
	return func() { cancel(); loops.Wait() }
}

// References that come and go without a wait send nothing.
func TestSpinningReferencesSendNothing(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		for range 10_000 {
			r.readd("tls")
		}
		if got := r.requestsIn(time.Second); got > 20 {
			t.Errorf("requests: got %d, want 20 at most", got)
		}
		r.wantValue("then", "tls", canary)
	})
}

// A pod that is replaced waits for nothing: the first few references that follow each other are read at once, and so is
// one that follows a reference which was there for long.
func TestReaddedReferenceIsReadAtOnce(t *testing.T) {
	for name, refused := range map[string]*apierrors.StatusError{"object": nil, "object that was forbidden": forbidden()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				wait := func(when string) {
					t.Helper()
					r.refuse(nil)
					began := time.Now()
					r.readd("tls")
					if r.mustGetWithin("tls", time.Minute); time.Since(began) > 10*time.Millisecond {
						t.Errorf("%s: the read took %v, want no time", when, time.Since(began))
					}
				}
				r.refuse(refused)
				r.AddReference(namespace, "tls", "pod")
				_, _ = r.get("tls", 5*time.Second)
				wait("first")
				wait("second")
				wait("third")
				for range 20 {
					time.Sleep(11 * time.Second)
					wait("later")
				}
			})
		})
	}
}

// What is kept of objects without references is dropped soon, and Run ends without a wait for that.
func TestReaddedReferencesAreForgotten(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for i := range 100 {
			name := fmt.Sprint("absent-", i)
			r.AddReference(namespace, name, "pod")
			_, _ = r.get(name, time.Second)
			r.DeleteReference(namespace, name, "pod")
		}
		if got := objectcache.KeptBackoffs(r.Store); got != 100 {
			t.Errorf("kept: got %d, want 100", got)
		}
		time.Sleep(3 * time.Minute)
		if got := objectcache.KeptBackoffs(r.Store); got != 0 {
			t.Errorf("kept after three minutes: got %d, want none", got)
		}
		r.AddReference(namespace, "tls", "pod")
		_, _ = r.get("tls", time.Second)
		r.DeleteReference(namespace, "tls", "pod")
		began := time.Now()
		if r.stop(); time.Since(began) > 0 {
			t.Errorf("Run has ended after %v, want at once", time.Since(began))
		}
	})
}

// A function of WithTransform that deletes and adds the reference to its object causes no requests without a pause.
func TestTransformReaddsItsReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		r := &rig{t: t, server: server, client: server.Client()}
		r.create("tls")
		client, err := kubernetes.NewForConfig(resource.ConfigFor(server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int32
		secrets := resource.Secrets(client).WithTransform(func(secret *corev1.Secret) *corev1.Secret {
			calls.Add(1)
			r.readd(secret.Name)
			return secret
		})
		r.Store = newStore(t, secrets, objectcache.WatchOptions{})
		r.run()
		r.AddReference(namespace, "tls", "pod")
		if got := r.requestsIn(5 * time.Second); got > 30 {
			t.Errorf("requests in the first 5 s: got %d, want 30 at most", got)
		}
		if got := r.requestsIn(time.Minute); got > 100 || calls.Load() < 60 {
			t.Errorf("requests in a minute: got %d, and %d calls in all; want 100 at most, and 60 calls", got, calls.Load())
		}
		r.stop()
	})
}
