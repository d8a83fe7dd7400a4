// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// crowd creates and references objects.
func (r *rig) crowd(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint("tls-", i))
		r.create(names[i])
		r.AddReference(namespace, names[i], "pod")
	}
	return names
}

// slowestOf gets all objects at the same time, and returns how long the slowest took.
func (r *rig) slowestOf(names []string) (slowest time.Duration) {
	var mu sync.Mutex
	var gets sync.WaitGroup
	began := time.Now()
	for _, name := range names {
		gets.Go(func() {
			_, err := r.get(name, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(began))
			if err != nil {
				r.t.Errorf("Get %s: %v", name, err)
			}
		})
	}
	gets.Wait()
	return slowest
}

// Of a thousand objects many hang or fail. They delay the others only at first, however
// many Gets ask for them, and cause few requests.
func TestTTLBadNeighboursDelayNobody(t *testing.T) {
	hang := func(ctx context.Context) *metav1.Status { <-ctx.Done(); return nil }
	fail := func(context.Context) *metav1.Status { return &unavailable().ErrStatus }
	refuse := func(context.Context) *metav1.Status { return &forbidden().ErrStatus }
	tests := map[string]struct {
		answer func(context.Context) *metav1.Status
		bad    int           // of ten
		first  time.Duration // until all other objects are read
	}{
		"1 of 10 hangs":      {hang, 1, 5 * time.Second},
		"5 of 10 hang":       {hang, 5, 20 * time.Second},
		"9 of 10 fail":       {fail, 9, 30 * time.Second},
		"9 of 10 is refused": {refuse, 9, 30 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{TTL: 10 * time.Second}, func(t *testing.T, r *rig) {
				isBad := func(name string) bool { return int(name[len(name)-1]-'0') < test.bad }
				names := r.crowd(1000)
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" && isBad(request.Name) {
						return test.answer(ctx)
					}
					return nil
				})
				ctx, cancel := context.WithCancel(t.Context())
				var gets sync.WaitGroup
				var good []string
				for _, name := range names {
					if isBad(name) {
						gets.Go(func() { r.getInALoop(ctx, name) })
					} else {
						good = append(good, name)
					}
				}
				first := r.slowestOf(good) // all at once with the bad ones
				time.Sleep(time.Minute)
				before, later := len(r.server.Requests()), r.slowestOf(good)
				time.Sleep(10 * time.Second)
				requests := (len(r.server.Requests()) - before) / 10
				t.Logf("slowest of %d good objects: %v at first, %v later; %d requests a second", len(good), first, later, requests)
				if first > test.first || later > time.Second || requests > 300 {
					t.Errorf("want at most %v at first, 1 s later, and 300 requests a second", test.first)
				}
				cancel()
				gets.Wait()
			})
		})
	}
}

// getInALoop gets an object all the time, for up to ten seconds each.
func (r *rig) getInALoop(ctx context.Context, name string) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, _ = r.Get(limited, namespace, name)
		cancel()
		pause, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		<-pause.Done()
		cancel()
	}
}

// At most 32 reads are under way at a time, however many objects are asked for.
func TestTTLReadsAtATime(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		good := r.crowd(1000)
		var mu sync.Mutex
		now, most := 0, 0
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		slowest := r.slowestOf(good)
		if most != 32 || slowest > time.Second {
			t.Errorf("got %d reads at a time, and %v for all, want 32 and at most 1 s", most, slowest)
		}
	})
}

// A program that demands a live read in a loop reads ten times a second.
func TestTTLLiveReadsPerSecond(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.requests("get", "tls"); got < 90 || got > 102 {
			t.Errorf("reads in 10 s: got %d, want 100", got)
		}
	})
}

// A read that takes longer than ReadTimeout has failed. The next one follows.
func TestTTLReadTimeout(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.referenced("tls")
		time.Sleep(time.Minute)
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "get" {
				<-ctx.Done()
			}
			return nil
		})
		began := time.Now()
		got, err := r.Get(t.Context(), namespace, "tls")
		if took := time.Since(began); err != nil || got.UID != created.UID || took > 15*time.Second {
			t.Errorf("got %v after %v, want the previous object after 15 s", err, took)
		}
		status, _ := r.Status(namespace, "tls")
		if status.LastError == nil || !strings.Contains(status.LastError.Error(), "did not answer in time") {
			t.Errorf("status: got %v, want that the server did not answer in time", status.LastError)
		}
		r.within("tls", time.Nanosecond, created.UID)
		r.server.Intercept(nil)
		time.Sleep(15 * time.Second)
		if got := r.phase("tls"); got != objectcache.Cached {
			t.Errorf("phase after it: got %s, want Cached", got)
		}
	})
}

// In an outage Gets return what is held, and few requests find out when it ends.
func TestTTLOutage(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		good := r.crowd(500)
		r.slowestOf(good)
		r.refuseAll(unavailable())
		time.Sleep(time.Minute)
		if slowest := r.slowestOf(good); slowest > 2*time.Second {
			t.Errorf("first Gets in the outage: the slowest took %v, want at most 2 s", slowest)
		}
		before := len(r.server.Requests())
		time.Sleep(time.Minute)
		if slowest := r.slowestOf(good); slowest > time.Millisecond {
			t.Errorf("later Gets: the slowest took %v, want all at once", slowest)
		}
		if got := len(r.server.Requests()) - before; got > 60*25 {
			t.Errorf("requests in a minute of the outage: got %d, want at most 25 a second", got)
		}
		r.refuseAll(nil)
		time.Sleep(30 * time.Second)
		for status := range r.Statuses() {
			if status.Phase != objectcache.Cached {
				t.Fatalf("30 s after the outage: got %+v, want Cached", status)
			}
		}
	})
}

// refuseAll answers every GET with an error, or lets the server handle it if it is nil.
func (r *rig) refuseAll(err *apierrors.StatusError) {
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" && err != nil {
			return &err.ErrStatus
		}
		return nil
	})
}

// Changes yields what the reads observe.
func TestTTLChanges(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "at first", sub.seen(), "tls="+canary)
		r.AddReference(namespace, "absent", "pod")
		want(t, "before a read", sub.seen())
		_, _ = r.get("absent", time.Second)
		want(t, "absent", sub.seen(), "absent absent")
		r.update("tls", "1")
		time.Sleep(time.Hour)
		want(t, "without a Get", sub.seen())
		r.mustGet("tls")
		want(t, "after a Get", sub.seen(), "tls=1")
		time.Sleep(time.Minute)
		r.mustGet("tls")
		want(t, "read again, unchanged", sub.seen())
		r.AddReference(namespace, "tls", "other")
		want(t, "another owner, before a read", sub.seen())
		r.mustGet("tls")
		want(t, "another owner", sub.seen(), "tls=1")
		r.remove("tls")
		time.Sleep(time.Minute)
		_, _ = r.get("tls", time.Second)
		want(t, "deletion", sub.seen(), "tls gone")
		r.create("tls")
		time.Sleep(time.Second)
		r.mustGet("tls")
		want(t, "recreation", sub.seen(), "tls="+canary)
		r.DeleteReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "other")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		want(t, "referenced anew", sub.seen(), "tls="+canary)
		r.stop()
		<-sub.done
		for range r.Changes(t.Context()) {
			t.Error("a stopped store yields a change")
		}
	})
}

// After a restore from a backup the server has older versions, or other content under
// the same version. The newest read counts.
func TestTTLServerRolledBack(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before := r.server.Snapshot()
		r.update("tls", "lost")
		time.Sleep(time.Minute)
		lost := r.mustGet("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "before", sub.seen(), "tls=lost")
		r.server.Restore(before)
		time.Sleep(time.Minute)
		if got := valueOf(r.mustGet("tls")); got != canary {
			t.Errorf("after the restore: got %q, want the restored state", got)
		}
		want(t, "after the restore", sub.seen(), "tls="+canary)
		time.Sleep(time.Minute)
		r.mustGet("tls")
		for {
			if updated := r.update("tls", fmt.Sprint("after ", r.server.ResourceVersion())); updated.ResourceVersion == lost.ResourceVersion {
				break
			}
		}
		time.Sleep(time.Minute)
		if got := r.mustGet("tls"); got.ResourceVersion != lost.ResourceVersion || valueOf(got) == "lost" {
			t.Errorf("the same version: got %q at %s, want the new content", valueOf(got), got.ResourceVersion)
		}
		if got := sub.seen(); len(got) != 1 || !strings.HasPrefix(got[0], "tls=after") {
			t.Errorf("the same version: got changes %q, want the new content", got)
		}
	})
}

// Get and DeleteReference at the same moment: an object without references is not
// requested, and not kept.
func TestTTLGetRacesTheLastReference(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}}
	if _, err := server.Client().CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := objectcache.NewTTLStore(objectcache.Secrets(server.Client()), objectcache.TTLOptions{TTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t.Context(), t, store)
	for round := range 200 {
		store.AddReference(namespace, "tls", "pod")
		var racing sync.WaitGroup
		for range 4 {
			racing.Go(func() {
				if _, err := store.Get(t.Context(), namespace, "tls"); err != nil && !errors.Is(err, objectcache.ErrNotRegistered) {
					t.Errorf("Get: got %v, want the object or ErrNotRegistered", err)
				}
			})
		}
		if round%2 == 0 {
			_, _ = store.Get(t.Context(), namespace, "tls")
		}
		store.DeleteReference(namespace, "tls", "pod")
		racing.Wait()
		if _, ok := store.Status(namespace, "tls"); ok {
			t.Fatal("after the last reference: got a status, want none")
		}
		if _, err := store.Get(t.Context(), namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Fatalf("after the last reference: got %v, want ErrNotRegistered", err)
		}
	}
	stop()
}

// The last reference, and the end of Run, free the object and end a read under way.
func TestTTLObjectIsFreed(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"last reference": func(r *rig) { r.DeleteReference(namespace, "tls", "pod") },
		"last reference, during a read": func(r *rig) {
			release := r.holdBack("get")
			defer release()
			time.Sleep(time.Minute)
			_, _ = r.TryGet(namespace, "tls")
			synctest.Wait()
			r.DeleteReference(namespace, "tls", "pod")
			synctest.Wait()
		},
		"stopped": func(r *rig) { r.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				r.closeWhenFreed("tls", freed)
				end(r)
				synctest.Wait()
				collect(t, freed)
			})
		})
	}
}

// The status follows the object. Owners are counted.
func TestTTLStatus(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "b")
		r.AddReference(namespace, "tls", "a")
		r.AddReference(namespace, "tls", "a")
		release := r.holdBack("get")
		waiting := r.async(t.Context(), "tls")
		if got := r.phase("tls"); got != objectcache.Syncing {
			t.Errorf("during the first read: got %s, want Syncing", got)
		}
		release()
		<-waiting
		read := time.Now()
		time.Sleep(time.Hour)
		status, ok := r.Status(namespace, "tls")
		if !ok || status.Phase != objectcache.Cached || !status.Exists || status.UID != created.UID || status.ResourceVersion != created.ResourceVersion ||
			!status.LastContact.Equal(read) || fmt.Sprint(status.Owners) != "[a b]" || status.LastError != nil {
			t.Errorf("got %+v, want the object, its owners and the time of the read", status)
		}
		for _, owner := range []types.UID{"a", "b", "stranger", "b"} {
			r.DeleteReference(namespace, "tls", owner)
		}
		if _, ok := r.Status(namespace, "tls"); !ok {
			t.Error("one reference left: got no status")
		}
		r.DeleteReference(namespace, "tls", "a")
		if _, ok := r.Status(namespace, "tls"); ok {
			t.Error("no reference left: got a status")
		}
		for range r.Statuses() {
			t.Error("no reference left: Statuses yields one")
		}
	})
}

// No log line and no error holds object data.
func TestTTLNoObjectDataInLogsAndErrors(t *testing.T) {
	object := fmt.Sprintf(`{"metadata":{"name":"tls"},"data":{"password":%q},"stringData":{"x":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(canary)), canary)
	for name, options := range map[string]objectcache.StoreOptions{"TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{}} {
		for _, code := range []int{http.StatusOK, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError} {
			for _, hidden := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%d/REST client hidden: %v", name, code, hidden), func(t *testing.T) {
					out := captureLog(t)
					var texts []string
					synctest.Test(t, func(t *testing.T) {
						texts = quotedBy(t, options, func(*http.Request) (int, string) { return code, object }, hidden)
					})
					for _, text := range append(texts, out.String()) {
						for _, form := range forms(canary) {
							if strings.Contains(text, form) {
								t.Errorf("got object data as %q in:\n%s", form, text)
							}
						}
					}
				})
			}
		}
	}
}
