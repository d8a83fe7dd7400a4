// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A read hangs, and an owner comes, which gets the previous object. When the read succeeds after
// all, it is not that of the new owner: the next Get reads again.
func TestTTLNewOwnerDuringAReadThatHangs(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.Sleep(time.Minute)
		release := r.holdBack("get")
		first := r.async(t.Context(), "tls")
		time.Sleep(time.Second)
		r.AddReference(namespace, "tls", "new")
		r.within("tls", 2*time.Second, (<-first).secret.UID)
		release()
		synctest.Wait()
		r.mustGet("tls")
		r.wantReads("the new owner", "tls", 3)
	})
}

// References alone send no request, also while a read fails.
func TestTTLOwnersSendNoRequests(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.refuse(unavailable())
		time.Sleep(time.Minute)
		r.mustGet("tls")
		time.Sleep(time.Minute)
		before := r.requests("get", "tls")
		for i := range 60 {
			r.AddReference(namespace, "tls", types.UID(fmt.Sprint("pod-", i)))
			time.Sleep(time.Second)
		}
		if got := r.requests("get", "tls") - before; got > 10 {
			t.Errorf("requests in a minute in which 60 owners came: got %d, want at most 10", got)
		}
	})
}

// The read that follows a retry begins no sooner than 100 ms after it.
func TestTTLReadAfterARetry(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{TTLFunc: noTTL}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		var mu sync.Mutex
		var began []time.Time
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			defer mu.Unlock()
			if request.Verb != "get" {
				return nil
			}
			if began = append(began, time.Now()); len(began) == 1 {
				return &unavailable().ErrStatus
			}
			return nil
		})
		time.Sleep(time.Second)
		for range 3 {
			_, _ = r.demand("tls", objectcache.GetOptions{Live: true})
		}
		mu.Lock()
		defer mu.Unlock()
		for i := 2; i < len(began); i++ {
			if gap := began[i].Sub(began[i-1]); gap < 100*time.Millisecond {
				t.Errorf("read %d began %v after the one before, want 100 ms", i, gap)
			}
		}
		if len(began) < 4 {
			t.Errorf("got %d reads, want at least 4", len(began))
		}
	})
}

// TryGet asks for a read also within 100 ms of the last one: it begins then.
func TestTTLTryGetSoonAfterARead(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.Sleep(50 * time.Millisecond)
		r.AddReference(namespace, "tls", "new")
		for range 3 {
			_, _ = r.TryGet(namespace, "tls")
		}
		time.Sleep(time.Minute)
		r.wantReads("a new owner", "tls", 2)
		if status, _ := r.Status(namespace, "tls"); !status.Synced {
			t.Errorf("status: got %+v, want Synced", status)
		}
	})
}

// A Get that has waited for Run gives up a read without an answer after 30 s, as any Get does before the server's first
// answer.
func TestTTLGetBeforeRunAndALostAnswer(t *testing.T) {
	beforeRun(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		waiting := r.async(t.Context(), "tls")
		time.Sleep(2 * time.Second)
		first := true
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "get" && first {
				first = false
				<-ctx.Done()
			}
			return nil
		})
		r.run()
		began := time.Now()
		if got := <-waiting; got.err != nil || time.Since(began) > 31*time.Second {
			t.Errorf("got %v after %v, want the object after 30 s", got.err, time.Since(began))
		}
	})
}

// A Get whose context ends takes the previous object, and causes no read beside the one under way.
func TestTTLGetThatEndsCausesNoRead(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.referenced("tls")
		time.Sleep(time.Minute)
		release := r.holdBack("get")
		for range 5 {
			r.within("tls", 100*time.Millisecond, created.UID)
		}
		release()
		time.Sleep(10 * time.Second)
		r.wantReads("five Gets that have ended", "tls", 2)
	})
}

// Changes yields the refusal of the first read, once it has lasted for RefusalGrace.
func TestTTLChangesYieldARefusal(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.refuse(forbidden())
		sub := r.subscribe()
		defer sub.stop()
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Minute)
		want(t, "before a Get", sub.seen())
		_, _ = r.get("tls", time.Minute)
		time.Sleep(time.Second)
		want(t, "after a Get", sub.seen(), "tls refused: Forbidden")
		r.refuse(nil)
		time.Sleep(20 * time.Second)
		want(t, "granted", sub.seen(), "tls="+canary)
	})
}
