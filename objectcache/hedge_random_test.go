// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// randomSeeds returns how many random runs a test makes.
func randomSeeds() uint64 { return uint64(fewer(3)) }

// writes are the states of one object, in order: true if it exists in the state of that index.
type writes struct {
	mu     sync.Mutex
	exists []bool
	seen   int // the oldest state that a Get or a Change may show
}

func (w *writes) last() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.exists) - 1
}

// saw checks that a Get or a Change, which may show no state before from, does not go back.
func (w *writes) saw(secret *corev1.Secret, err error, from int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		at, _ := strconv.Atoi(string(secret.Data["password"]))
		if at < from {
			return fmt.Errorf("got state %d, want no state before %d of %v", at, from, w.exists)
		}
		w.seen = max(w.seen, at)
	case apierrors.IsNotFound(err):
		for at := from; at < len(w.exists); at++ {
			if !w.exists[at] {
				w.seen = max(w.seen, at)
				return nil
			}
		}
		return fmt.Errorf("got NotFound, want no state before %d of %v", from, w.exists)
	}
	return nil
}

func (w *writes) mayShow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// No Get and no Change goes back, and no first Get is older than the reference, whatever
// overtakes what, and whatever fails.
func TestHedgedReadsInAnyOrder(t *testing.T) {
	for seed := range randomSeeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			options := objectcache.WatchOptions{}
			if seed%4 == 1 {
				options.IdleTimeout = 500 * time.Millisecond
			}
			inBubble(t, options, func(t *testing.T, r *rig) { runInAnyOrder(t, r, random, seed) })
		})
	}
}

func runInAnyOrder(t *testing.T, r *rig, random *rand.Rand, seed uint64) {
	var mu sync.Mutex
	roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return random.IntN(n) }
	slow := func(ctx context.Context) {
		sleepFor(ctx, time.Duration(roll(60))*time.Duration(roll(3))*time.Millisecond)
	}
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		switch request.Verb {
		case "get", "list", "watch":
		default:
			return nil
		}
		slow(ctx)
		switch roll(40) {
		case 0:
			return &forbidden().ErrStatus
		case 1:
			return &unavailable().ErrStatus
		case 2:
			return &apierrors.NewTooManyRequests("slow down", 1).ErrStatus
		case 3:
			if request.Verb != "get" {
				<-ctx.Done()
			}
		}
		return nil
	})
	r.server.Rewrite(apiserver.Rewriter{
		Event: func(ctx context.Context, _ apiserver.Request, event watch.Event) []watch.Event {
			slow(ctx)
			return []watch.Event{event}
		},
		Object: func(ctx context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
			if request.Verb == "get" || request.Verb == "list" {
				slow(ctx)
			}
			return object
		},
	})
	names := []string{"a", "b", "c"}
	history := map[string]*writes{}
	for _, name := range names {
		history[name] = &writes{exists: []bool{false}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var group sync.WaitGroup
	group.Go(func() { // a follower
		yielded := map[string]int{}
		for c := range r.Changes(ctx) {
			name := c.Key.Name
			if err := history[name].saw(c.Object, c.Err, yielded[name]); err != nil {
				t.Errorf("seed %d: Changes of %s: %v", seed, name, err)
			}
			if c.Err == nil {
				yielded[name], _ = strconv.Atoi(string(c.Object.Data["password"]))
			}
		}
	})
	for _, name := range names {
		w := history[name]
		group.Go(func() { // writes
			sealed := false
			for ctx.Err() == nil {
				sleepFor(ctx, time.Duration(roll(200))*time.Millisecond)
				w.mu.Lock()
				exists, at := w.exists[len(w.exists)-1], len(w.exists)
				next := !exists || !sealed && roll(3) > 0
				w.exists = append(w.exists, next)
				w.mu.Unlock()
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(strconv.Itoa(at))}}
				if sealed = next && roll(6) == 0; sealed {
					immutable(secret)
				}
				secrets := r.client.CoreV1().Secrets(namespace)
				var err error
				switch {
				case !next:
					err = secrets.Delete(t.Context(), name, metav1.DeleteOptions{})
				case exists:
					_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
				default:
					_, err = secrets.Create(t.Context(), secret, metav1.CreateOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() { // references and Gets
			for ctx.Err() == nil {
				added := max(0, w.last()-1) // the last write may be under way
				owner := types.UID(fmt.Sprint("pod-", roll(1000)))
				w.mu.Lock()
				w.seen = 0
				w.mu.Unlock()
				r.AddReference(namespace, name, owner)
				if roll(2) == 0 {
					sleepFor(ctx, time.Duration(roll(100))*time.Millisecond)
				}
				for range roll(20) {
					from := max(added, w.mayShow())
					getCtx, cancel := context.WithTimeout(ctx, time.Duration(1+roll(2000))*time.Millisecond)
					secret, err := r.Get(getCtx, namespace, name)
					cancel()
					if err := w.saw(secret, err, from); err != nil {
						t.Errorf("seed %d: Get %s: %v", seed, name, err)
					}
					sleepFor(ctx, time.Duration(roll(40))*time.Millisecond)
				}
				r.DeleteReference(namespace, name, owner)
			}
		})
	}
	group.Wait()
}

// A server is restored from a backup at any moment of a hedged read and an opening. All Gets
// come to the restored state, and have the changes after it.
func TestHedgedReadsAndARestoreAtAnyMoment(t *testing.T) {
	for _, refs := range []int{1, 2} {
		for moment := time.Duration(0); moment < 260*time.Millisecond; moment += 12 * time.Millisecond {
			t.Run(fmt.Sprint(refs, " references, ", moment), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					r.create("tls")
					r.create("other")
					r.update("tls", "restored")
					backup := r.server.Snapshot()
					r.update("tls", "lost")
					r.update("other", "lost")
					if refs > 1 {
						r.AddReference(namespace, "other", "pod")
						r.mustGet("other")
					}
					r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
						if request.Verb == "list" || request.Verb == "watch" {
							sleepFor(ctx, 95*time.Millisecond)
						}
						return nil
					})
					r.server.Rewrite(apiserver.Rewriter{
						Event: late,
						Object: func(ctx context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
							if request.Verb == "get" {
								sleepFor(ctx, 30*time.Millisecond)
							}
							return object
						},
					})
					r.AddReference(namespace, "tls", "pod")
					done := r.async(t.Context(), "tls")
					time.Sleep(moment)
					r.server.Restore(backup)
					if got := <-done; got.err != nil {
						t.Error(got.err)
					}
					time.Sleep(10 * time.Second)
					r.wantValue("10 s later", "tls", "restored")
					r.update("tls", "new")
					time.Sleep(10 * time.Second)
					r.wantValue("after an update", "tls", "new")
				})
			})
		}
	}
}
