// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// slowOpenings delays lists and watches, as a busy etcd does, and counts the GETs.
func (r *rig) slowOpenings(delay time.Duration) (gets *atomic.Int32) {
	gets = new(atomic.Int32)
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		switch request.Verb {
		case "get":
			gets.Add(1)
		case "list", "watch":
			sleepFor(ctx, delay)
		}
		return nil
	})
	return gets
}

// sleepFor uses no timer with a channel: the race detector cannot take many of them due at one moment
// (go.dev/issue/78156).
func sleepFor(ctx context.Context, delay time.Duration) {
	over, cancel := context.WithTimeout(ctx, delay)
	defer cancel()
	<-over.Done()
}

// A Get that waits alone for a slow opening is answered by a GET after 3 ms. If the opening
// is fast, no GET is sent.
func TestHedgedRead(t *testing.T) {
	for delay, gets := range map[time.Duration]int32{0: 0, 2 * time.Millisecond: 0, 95 * time.Millisecond: 1, time.Hour: 1} {
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{MaxStaleness: time.Minute}, func(t *testing.T, r *rig) {
				sent := r.slowOpenings(delay)
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				began := time.Now()
				r.mustGet("tls")
				if took := time.Since(began); took > 3*time.Millisecond || sent.Load() != gets {
					t.Errorf("took %v and %d GETs, want 3 ms at most and %d", took, sent.Load(), gets)
				}
				status, _ := r.Status(namespace, "tls")
				if !status.Synced || !status.Exists || status.LastContact.IsZero() {
					t.Errorf("status: got %+v, want it synced", status)
				}
				if delay < time.Hour {
					time.Sleep(time.Second)
					r.wantPhase("when the stream is open", "tls", servingNamed, 1)
					r.update("tls", "new")
					r.wantValue("when the stream is open", "tls", "new")
				}
				if got := r.Stats(); got.FirstSync.Count != 1 {
					t.Errorf("first syncs: got %d, want 1", got.FirstSync.Count)
				}
			})
		})
	}
}

// An absence in a GET has no version, and says nothing: Get waits for the opening.
func TestHedgedReadOfAnAbsentObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.slowOpenings(95 * time.Millisecond)
		r.AddReference(namespace, "tls", "pod")
		began := time.Now()
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want NotFound", err)
		}
		if took := time.Since(began); took < 95*time.Millisecond {
			t.Errorf("took %v, want the 95 ms of the opening", took)
		}
	})
}

// A refused GET is not repeated in its namespace for an hour, and Gets wait for the openings.
func TestHedgedReadRefused(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		sent := r.slowOpenings(95 * time.Millisecond)
		r.server.Authorize(func(request apiserver.Request) bool { return request.Verb != "get" })
		for i := range 10 {
			name := fmt.Sprint("tls-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
			time.Sleep(6*time.Minute - time.Second)
		}
		if got := r.requests("get", "tls-0"); got != 1 || sent.Load() != 1 {
			t.Errorf("GETs: got %d of the first object and %d of all, want 1", got, sent.Load())
		}
		time.Sleep(time.Minute)
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		if got := sent.Load(); got != 2 {
			t.Errorf("GETs after an hour: got %d, want 2", got)
		}
	})
}

// The same holds if the refusal comes after the stream has been opened.
func TestHedgedReadRefusedAfterTheStreamIsOpen(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var sent atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch request.Verb {
			case "get":
				sent.Add(1)
				sleepFor(ctx, 5*time.Millisecond) // from 3 to 8 ms
				return &forbidden().ErrStatus
			case "list", "watch":
				sleepFor(ctx, 6*time.Millisecond)
			}
			return nil
		})
		for i := range 10 {
			name := fmt.Sprint("tls-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
			time.Sleep(time.Minute)
		}
		if got := sent.Load(); got != 1 {
			t.Errorf("GETs: got %d, want 1", got)
		}
	})
}

// late makes each event of a watch come 50 ms after the one before.
func late(ctx context.Context, _ apiserver.Request, event watch.Event) []watch.Event {
	sleepFor(ctx, 50*time.Millisecond)
	return []watch.Event{event}
}

// The opening under way may have read an older state than the GET, and the stream is then
// behind it. No Get goes back, and the stream is opened once more.
func TestHedgedReadIsNewerThanTheOpening(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"updated": func(r *rig) {
			r.create("tls")
			r.AddReference(namespace, "tls", "pod")
			time.Sleep(time.Millisecond)
			r.update("tls", "new")
		},
		"created": func(r *rig) {
			r.AddReference(namespace, "tls", "pod")
			time.Sleep(time.Millisecond)
			r.create("tls")
			r.update("tls", "new")
		},
		"recreated": func(r *rig) {
			r.create("tls")
			r.AddReference(namespace, "tls", "pod")
			time.Sleep(time.Millisecond)
			r.remove("tls")
			r.create("tls")
			r.update("tls", "new")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.server.Rewrite(apiserver.Rewriter{Event: late})
				change(r)
				for range 100 {
					r.wantValue("during the opening", "tls", "new")
					time.Sleep(5 * time.Millisecond)
				}
				r.wantPhase("after the opening", "tls", servingNamed, 1)
				r.update("tls", "newest")
				time.Sleep(time.Second)
				r.wantValue("after the next update", "tls", "newest")
				if got := r.opens("tls"); got > 2 {
					t.Errorf("openings: got %d, want at most 2", got)
				}
			})
		})
	}
}

// A server is restored from a backup while the opening hangs, after the GET has read a state
// that is then lost. The verification of the silent stream finds out.
func TestHedgedReadBeforeARollback(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.update("tls", "restored")
		backup := r.server.Snapshot()
		r.update("tls", "lost")
		release := r.holdBack("list", "watch")
		r.AddReference(namespace, "tls", "pod")
		r.wantValue("by GET", "tls", "lost")
		r.server.Restore(backup)
		release()
		time.Sleep(10 * time.Second)
		r.wantValue("after the second opening", "tls", "restored")
		r.update("tls", "newest")
		r.wantValue("after the next update", "tls", "newest")
	})
}

// While openings hang, Gets have hedged reads, however many they are: 4 at once. A failure
// ends them for a second.
func TestHedgedReadsOfHangingOpenings(t *testing.T) {
	crowd(t)
	for name, test := range map[string]struct {
		answer func(context.Context) *metav1.Status
		sent   int32 // at most
	}{
		"GETs hang too": {func(ctx context.Context) *metav1.Status { <-ctx.Done(); return nil }, 4 * 11},
		"GETs fail":     {func(context.Context) *metav1.Status { return &unavailable().ErrStatus }, 4 * 31},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				var sent, underWay, most atomic.Int32
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb != "get" {
						<-ctx.Done()
						return nil
					}
					sent.Add(1)
					most.Store(max(most.Load(), underWay.Add(1)))
					defer underWay.Add(-1)
					return test.answer(ctx)
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				var gets sync.WaitGroup
				for i := range 1000 {
					name := fmt.Sprint("tls-", i)
					r.AddReference(namespace, name, "pod")
					gets.Go(func() { _, _ = r.Get(ctx, namespace, name) })
				}
				gets.Wait()
				if got := most.Load(); got > 4 {
					t.Errorf("GETs at once: got %d, want at most 4", got)
				}
				if got := sent.Load(); got < 4 || got > test.sent {
					t.Errorf("GETs in 30 s: got %d, want 4 to %d", got, test.sent)
				}
			})
		})
	}
}

// A server answers nothing for a while from the start, and what it was asked then is lost. When it answers again, Gets
// wait for 10 s at most. With many references it is an outage, and the probe that was lost counts for 5 s.
func TestHedgedReadAfterALostAnswer(t *testing.T) {
	for hang, counts := range map[time.Duration][]int{time.Second: {1, 5}, 20 * time.Second: {1, 5, fewer(1000)}, 4 * time.Minute: {1, 5}} {
		for _, references := range counts {
			t.Run(fmt.Sprintf("%d references, %v", references, hang), func(t *testing.T) {
				const most = 10 * time.Second
				if references > 5 {
					crowd(t)
					manyStreams(t)
				}
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					names := make([]string, references)
					for i := range names {
						names[i] = fmt.Sprint("tls-", i)
						r.create(names[i])
					}
					healthy := time.Now().Add(hang)
					r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
						if time.Now().Before(healthy) {
							<-ctx.Done()
						}
						return nil
					})
					var served sync.WaitGroup
					for _, name := range names {
						r.AddReference(namespace, name, "pod")
						served.Go(func() {
							if _, err := r.Get(t.Context(), namespace, name); err != nil {
								t.Error(err)
							}
						})
					}
					served.Wait()
					t.Logf("%d references, away for %v: the last Get took %v more", references, hang, time.Since(healthy))
					if got := time.Since(healthy); got > most {
						t.Errorf("the last Get took %v more, want at most %v", got, most)
					}
				})
			})
		}
	}
}

// A GET that was answered before the last reference has gone, and whose object is transformed when another one has
// come, is not the state: the object may have changed before that.
func TestHedgedReadOfAnEarlierReference(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.run()
		r.create("tls")
		r.update("tls", "old")
		gets := r.slowOpenings(time.Second)
		b.block("tls")
		r.AddReference(namespace, "tls", "pod")
		if _, err := r.get("tls", 10*time.Millisecond); !errors.Is(err, objectcache.ErrNotSynced) || gets.Load() != 1 {
			t.Fatalf("got %v after %d GETs, want ErrNotSynced after one", err, gets.Load())
		}
		r.DeleteReference(namespace, "tls", "pod")
		r.update("tls", "new")
		r.AddReference(namespace, "tls", "pod")
		b.unblock()
		synctest.Wait()
		if status, _ := r.Status(namespace, "tls"); status.Synced {
			t.Errorf("status: got %+v, want it not synced", status)
		}
		r.mustGetWithin("tls", 2*time.Second)
		r.wantValue("by the second GET", "tls", "new")
	})
}

// A client with a rate limit sends no GET beside an opening: the opening may wait for the
// limit, and the GET would delay others.
func TestNoHedgedReadWithARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		r := &rig{t: t, server: server, client: server.Client()}
		config := server.Config()
		config.QPS, config.Burst = 1000, 1000
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		r.Store = newStore(t, resource.Secrets(client), objectcache.WatchOptions{})
		r.run()
		sent := r.slowOpenings(95 * time.Millisecond)
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		if got := sent.Load(); got != 0 {
			t.Errorf("GETs: got %d, want none", got)
		}
		r.stop()
	})
}
