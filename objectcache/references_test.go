// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestReferencesAreCountedPerOwner(t *testing.T) {
	type step struct {
		add  bool
		uid  types.UID
		want []types.UID // owners after it
	}
	tests := map[string][]step{
		"one owner":  {{true, "a", []types.UID{"a"}}, {false, "a", nil}},
		"twice each": {{true, "a", []types.UID{"a"}}, {true, "a", []types.UID{"a"}}, {false, "a", []types.UID{"a"}}, {false, "a", nil}},
		"two owners": {
			{true, "b", []types.UID{"b"}}, {true, "a", []types.UID{"a", "b"}}, {true, "a", []types.UID{"a", "b"}},
			{false, "b", []types.UID{"a"}}, {false, "a", []types.UID{"a"}}, {true, "c", []types.UID{"a", "c"}},
			{false, "a", []types.UID{"c"}}, {false, "c", nil},
		},
		"never added":   {{true, "a", []types.UID{"a"}}, {false, "b", []types.UID{"a"}}, {false, "a", nil}},
		"removed twice": {{true, "a", []types.UID{"a"}}, {false, "a", nil}, {false, "a", nil}, {true, "a", []types.UID{"a"}}},
		"removed first": {{false, "a", nil}, {true, "a", []types.UID{"a"}}},
		"empty owner":   {{true, "", []types.UID{""}}, {true, "a", []types.UID{"", "a"}}, {false, "", []types.UID{"a"}}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				for i, step := range steps {
					if step.add {
						r.AddReference(namespace, "tls", step.uid)
					} else {
						r.DeleteReference(namespace, "tls", step.uid)
					}
					status, referenced := r.Status(namespace, "tls")
					if !slices.Equal(status.Owners, step.want) || referenced != (step.want != nil) {
						t.Fatalf("step %d: owners %v (referenced: %v), want %v", i, status.Owners, referenced, step.want)
					}
					if got, want := r.streams("tls"), min(len(step.want), 1); got != want {
						t.Fatalf("step %d: %d streams on the server, want %d", i, got, want)
					}
				}
			})
		})
	}
}

func TestLastReferenceEndsAWaitingGet(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.refuse(unavailable())
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done, deleted := r.async(ctx, "tls"), time.Now()
		r.DeleteReference(namespace, "tls", "pod")
		if got := <-done; !errors.Is(got.err, objectcache.ErrNotRegistered) || !got.at.Equal(deleted) {
			t.Errorf("got %v after %v, want ErrNotRegistered at once", got.err, got.at.Sub(deleted))
		}
	})
}

// The first Get after the first reference sees every write that was acknowledged
// before it.
func TestFirstGetSeesEarlierWrites(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		for i := range 20 {
			want := fmt.Sprint(i)
			r.update("tls", want)
			r.AddReference(namespace, "tls", "pod") // pauses for a second at most
			if got := r.mustGetWithin("tls", 5*time.Second); string(got.Data["password"]) != want {
				t.Fatalf("got %q, want %q", got.Data["password"], want)
			}
			r.DeleteReference(namespace, "tls", "pod")
		}
		for _, request := range r.server.Requests() {
			if version := request.Query.Get("resourceVersion"); request.Verb == "watch" && version != "" {
				t.Errorf("first read at version %q, want a consistent one", version)
			}
		}
	})
}

// Peer bug 1: while kubelet's Get does not hold the lock, DeleteReference removes the
// item. Get starts it again, and nothing can stop that watch.
func TestPeerBug01_GetDoesNotRestartARemovedWatch(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		var all sync.WaitGroup
		for range 50 {
			r.AddReference(namespace, "tls", "pod")
			r.mustGet("tls")
			time.Sleep(3 * time.Minute) // idle: the next Get would start it again
			for range 8 {
				all.Go(func() { _, _ = r.get("tls", time.Second) })
			}
			all.Go(func() { r.DeleteReference(namespace, "tls", "pod") })
			all.Wait()
			if got := r.streams("tls"); got != 0 {
				t.Fatalf("streams after the last reference: got %d, want 0", got)
			}
			if _, err := r.get("tls", time.Second); !errors.Is(err, objectcache.ErrNotRegistered) {
				t.Fatalf("got %v, want ErrNotRegistered", err)
			}
		}
	})
}

// Peer bug 3: a late Replace marks kubelet's stopped item as synced. Here the client
// answers the first open after its reference was deleted.
func TestPeerBug03_LateAnswerIsNotTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, prompt := make(chan struct{}), make(chan struct{})
		close(prompt)
		client := &slowClient{gates: []chan struct{}{late, prompt}, data: []string{"old", "new"}}
		store := newStore(t, client.resource(), objectcache.WatchOptions{})
		stop := runStore(t.Context(), t, store)
		store.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		store.DeleteReference(namespace, "tls", "pod")
		store.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		close(late)
		synctest.Wait()
		got, err := store.Get(t.Context(), namespace, "tls")
		if err != nil || string(got.Data["password"]) != "new" {
			t.Errorf("got %v, %v, want the object of the second open", got, err)
		}
		stop()
	})
}

// Peer bug 5: in kubelet DeleteReference of an unknown UID stores −1, and the watch
// never ends.
func TestPeerBug05_UnknownOwner(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "stranger")
		r.DeleteReference(namespace, "tls", "stranger")
		r.DeleteReference(namespace, "tls", "pod")
		if got := r.streams("tls"); got != 0 {
			t.Errorf("streams after the last reference: got %d, want 0", got)
		}
		if _, referenced := r.Status(namespace, "tls"); referenced {
			t.Error("still referenced")
		}
	})
}

// Peer bug 10: kubelet uses no context, so a stop cannot cancel an open, and a restart
// waits for it.
func TestPeerBug10_StopCancelsAnOpen(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		cancelled := make(chan struct{})
		first := true
		var mu sync.Mutex
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			hang := first && request.Verb == "watch"
			first = first && !hang
			mu.Unlock()
			if hang {
				<-ctx.Done()
				close(cancelled)
			}
			return nil
		})
		r.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		r.DeleteReference(namespace, "tls", "pod")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		<-cancelled
	})
}

// Peer bug 11: kubelet's stop channel has a race, and two watches of one item are
// possible. This test needs the race detector.
func TestPeerBug11_OneWatchAtATime(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Millisecond}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "keeper")
		var all sync.WaitGroup
		for i := range 8 {
			uid := types.UID(fmt.Sprint(i))
			all.Go(func() {
				for range 50 {
					r.AddReference(namespace, "tls", uid)
					if _, err := r.get("tls", time.Minute); err != nil {
						t.Errorf("Get: %v", err)
					}
					r.DeleteReference(namespace, "tls", uid)
					time.Sleep(time.Duration(i) * time.Millisecond)
				}
			})
		}
		all.Wait()
		r.mustGet("tls")
		if got := r.streams("tls"); got != 1 {
			t.Errorf("streams: got %d, want 1", got)
		}
		time.Sleep(time.Second)
		if got := r.streams("tls"); got != 0 {
			t.Errorf("streams when idle: got %d, want 0", got)
		}
	})
}

// Peer bug 13: goroutines of kubelet's manager never end. The bubble ends only when
// every goroutine in it has ended.
func TestPeerBug13_RunEndsAllGoroutines(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Hour}, func(t *testing.T, r *rig) {
		for i := range 100 {
			r.AddReference(namespace, fmt.Sprintf("tls-%d", i), "pod")
		}
		synctest.Wait()
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("Run took %v of virtual time to return, want none", took)
		}
		synctest.Wait()
		if got := r.server.TotalStreams(); got != 0 {
			t.Errorf("streams after Run: got %d, want 0", got)
		}
	})
}

// Run waits for its goroutines, even if a client ignores its context.
func TestRunWaitsForASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &slowClient{gates: []chan struct{}{make(chan struct{})}, data: []string{"late"}}
		store := newStore(t, client.resource(), objectcache.WatchOptions{})
		stop := runStore(t.Context(), t, store)
		store.AddReference(namespace, "tls", "pod")
		synctest.Wait()
		time.AfterFunc(time.Minute, func() { close(client.gates[0]) })
		began := time.Now()
		stop()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Run returned after %v, want after the call of the client, a minute", took)
		}
	})
}

// Peer bug 15: a Get after kubelet's shutdown polls for a second, and then returns the
// error of a failed sync.
func TestPeerBug15_GetAfterShutdown(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		r.refuse(unavailable())
		r.AddReference(namespace, "other", "pod")
		waiting := r.async(t.Context(), "other")
		r.stop()
		if got := <-waiting; !errors.Is(got.err, objectcache.ErrStopped) {
			t.Errorf("waiting Get: got %v, want ErrStopped", got.err)
		}
		for _, name := range []string{"tls", "other", "unknown"} {
			if _, err := r.Get(t.Context(), namespace, name); !errors.Is(err, objectcache.ErrStopped) {
				t.Errorf("Get %s after shutdown: got %v, want ErrStopped at once", name, err)
			}
		}
		if err := r.Run(t.Context()); !errors.Is(err, objectcache.ErrAlreadyStarted) {
			t.Errorf("second Run: got %v, want ErrAlreadyStarted", err)
		}
		r.AddReference(namespace, "late", "pod")
		if got := r.streams("late"); got != 0 {
			t.Errorf("streams of a late reference: got %d, want 0", got)
		}
		if got := r.phase("tls"); got != objectcache.PhaseStopped {
			t.Errorf("phase: got %s, want Stopped", got)
		}
	})
}

// Run returns nil if its context has ended before the call.
func TestRunWithEndedContext(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
}
