// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Each read of an object without a stream has a reflector of its own. After a failure it
// waits as the one before would have, however many Gets demand a read. Here they give up
// before the server has answered, and other objects are healthy.
func TestFailingReadsBackOffWithoutAStream(t *testing.T) {
	for name, test := range map[string]struct {
		err  *apierrors.StatusError
		most int // requests in 20 s: a list, and a WatchList if that is refused, every 1.1 to 1.6 s
	}{
		"forbidden": {forbidden(), 44},
		"throttled": {apierrors.NewTooManyRequests("slow down", 30), 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				r.referenced("other", immutable)
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					if request.Name == "tls" {
						time.Sleep(10 * time.Millisecond) // longer than a Get
						return &test.err.ErrStatus
					}
					return nil
				})
				before := r.reads("tls")
				for began := time.Now(); time.Since(began) < 20*time.Second; {
					_, _ = r.demandFor(5*time.Millisecond, "tls", objectcache.GetOptions{Live: true})
					if _, err := r.demandFor(time.Second, "other", objectcache.GetOptions{Live: true}); err != nil {
						t.Fatalf("healthy object: %v", err)
					}
				}
				if got := r.reads("tls") - before; got < 1 || got > test.most {
					t.Errorf("requests in 20 s: got %d, want 1 to %d", got, test.most)
				}
				r.server.Intercept(nil)
				time.Sleep(30 * time.Second) // the Retry-After and its jitter
				if _, err := r.demandFor(2*time.Second, "tls", objectcache.GetOptions{Live: true}); err != nil {
					t.Errorf("afterwards: got %v, want the object", err)
				}
			})
		})
	}
}

// When a recheck of an immutable object was throttled while no Get waited, a live Get
// asked the server again at once. It waits for as long as the server asked, but for at
// most a minute.
func TestLiveGetHonorsTheRetryAfterOfARecheck(t *testing.T) {
	for seconds, waits := range map[int]time.Duration{30: 29 * time.Second, 86400: 58 * time.Second} {
		inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
			r.referenced("tls", immutable)
			r.refuse(apierrors.NewTooManyRequests("slow down", seconds))
			for before := r.reads("tls"); r.reads("tls") == before; {
				time.Sleep(100 * time.Millisecond)
			}
			r.refuse(nil)
			before := len(r.server.Requests())
			if _, err := r.demandFor(waits, "tls", objectcache.GetOptions{Live: true}); !errors.Is(err, objectcache.ErrNotSynced) {
				t.Errorf("Retry-After %d s: got %v, want ErrNotSynced", seconds, err)
			}
			if got := len(r.server.Requests()) - before; got != 0 {
				t.Errorf("Retry-After %d s: got %d requests in %v, want none", seconds, got, waits)
			}
			if _, err := r.demandFor(17*time.Second, "tls", objectcache.GetOptions{Live: true}); err != nil {
				t.Errorf("after Retry-After and its jitter: got %v, want the object", err)
			}
		})
	}
}

// Get demands make an object be read that has no stream. Attempts that fail are paced.
func TestDemandsOnAnObjectWithoutAStream(t *testing.T) {
	demands := map[string]func(version string) objectcache.GetOptions{
		"live":           func(string) objectcache.GetOptions { return objectcache.GetOptions{Live: true} },
		"not older than": func(version string) objectcache.GetOptions { return objectcache.GetOptions{NotOlderThan: version} },
	}
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				r.remove("tls")
				again := r.create("tls", immutable)
				options := demand(again.ResourceVersion)
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Microsecond)
						got, err := r.GetWithOptions(t.Context(), namespace, "tls", options)
						if err != nil || got.UID != again.UID {
							t.Errorf("got %v, %v, want the new object", got, err)
						}
					})
				}
				all.Wait()
				r.wantPhase("after the reads", "tls", servingImmutable, 0)
				if name == "not older than" {
					options.NotOlderThan = "1000000"
				}
				time.Sleep(time.Second)
				r.refuse(forbidden())
				before := r.reads("tls")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := r.GetWithOptions(ctx, namespace, "tls", options); !apierrors.IsForbidden(err) {
					t.Errorf("refused: got %v, want Forbidden", err)
				}
				during := r.reads("tls")
				time.Sleep(time.Minute)
				if got, after := during-before, r.reads("tls")-during; got == 0 || got > 10 || got+after > 12 {
					t.Errorf("refused reads: got %d, and %d more, want those of a back-off, two for each of six attempts in all", got, after)
				}
				r.wantPhase("refused", "tls", objectcache.PhaseNotUpdated, 0)
				r.mustGet("tls")
			})
		})
	}
}

// A Live Get that came while a read was under way waited for ever: the object had no
// stream, so nothing read it again.
func TestLiveGetDuringAReadWithoutAStream(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		release := r.holdBack("list")
		r.AddReference(namespace, "tls", "pod-2")
		synctest.Wait()
		done := make(chan error, 1)
		go func() {
			_, err := r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{Live: true})
			done <- err
		}()
		synctest.Wait()
		release()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("got %v, want the object", err)
			}
		case <-time.After(time.Minute):
			t.Error("Get waits for ever")
		}
	})
}
