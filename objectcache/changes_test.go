// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	canaries "github.com/refwatch/refwatch/test/canary"
)

func TestChangesYieldEveryState(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "absent", "pod")
		synctest.Wait()
		sub := r.subscribe()
		defer sub.stop()
		want(t, "at first", sub.sorted(), "absent absent", "tls="+canary)
		r.update("tls", "1")
		want(t, "update", sub.seen(), "tls=1")
		r.remove("tls")
		want(t, "deletion", sub.seen(), "tls gone")
		time.Sleep(5 * time.Minute)
		want(t, "bookmarks after the deletion", sub.seen())
		r.create("tls")
		want(t, "recreation", sub.seen(), "tls="+canary)
		r.create("absent")
		want(t, "creation", sub.seen(), "absent="+canary)
		r.AddReference(namespace, "tls", "other")
		want(t, "another owner", sub.seen(), "tls="+canary)
		time.Sleep(6 * time.Hour) // streams end and are opened again, bookmarks come
		want(t, "reopened streams", sub.seen())
	})
}

func TestChangesAfterABrokenStream(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.create("same")
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "same", "pod")
		sub := r.subscribe()
		defer sub.stop()
		sub.seen()
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		r.remove("tls")
		r.create("tls")
		r.update("tls", "new")
		want(t, "during the outage", sub.seen())
		r.refuse(nil)
		time.Sleep(time.Minute)
		want(t, "after the outage", sub.seen(), "tls=new")
	})
}

// A slow subscriber gets the newest state, once, and delays no Get.
func TestChangesKeepTheNewestForASlowSubscriber(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithCancel(t.Context())
		next, got := make(chan struct{}), make(chan string, 10)
		go func() {
			for change := range r.Changes(ctx) {
				got <- string(change.Object.Data["password"])
				<-next
			}
			close(got)
		}()
		synctest.Wait()
		for i := range 100 {
			r.update("tls", fmt.Sprint(i))
		}
		if got := r.mustGet("tls"); string(got.Data["password"]) != "99" {
			t.Errorf("Get: got %q, want 99", got.Data["password"])
		}
		next <- struct{}{}
		synctest.Wait()
		cancel()
		close(next)
		var all []string
		for value := range got {
			all = append(all, value)
		}
		want(t, "slow subscriber", all, canary, "99")
	})
}

func TestChangesYieldTheOwners(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "b")
		sub := r.subscribe()
		defer sub.stop()
		r.AddReference(namespace, "tls", "a")
		sub.seen()
		r.update("tls", "new")
		if got := (<-sub.changes).owners; fmt.Sprint(got) != "[a b]" {
			t.Errorf("owners: got %v, want a and b", got)
		}
	})
}

func TestChangesAfterTheLastReference(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		sub := r.subscribe()
		defer sub.stop()
		sub.seen()
		r.DeleteReference(namespace, "tls", "pod")
		want(t, "no reference", sub.seen())
		r.AddReference(namespace, "tls", "pod")
		want(t, "referenced again", sub.seen(), "tls="+canary)
		r.DeleteReference(namespace, "tls", "pod")
		want(t, "no reference again", sub.seen())
		r.remove("tls")
		r.AddReference(namespace, "tls", "pod")
		want(t, "referenced after the deletion", sub.seen(), "tls absent")
	})
}

// An object without references for a moment is yielded again, even if the subscriber
// did not see that: its owners are others.
func TestChangesAfterAnUnseenGap(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		var owners []string
		for _, uids := range r.Changes(t.Context()) {
			if owners = append(owners, fmt.Sprint(uids)); len(owners) == 2 {
				break
			}
			r.DeleteReference(namespace, "tls", "pod-1")
			r.AddReference(namespace, "tls", "pod-2")
			r.mustGet("tls")
		}
		want(t, "owners", owners, "[pod-1]", "[pod-2]")
	})
}

// While there is a subscriber no object goes idle, and objects that were idle are
// watched again.
func TestChangesPreventIdle(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(5 * time.Minute)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Fatalf("phase: got %s, want Idle", got)
		}
		sub := r.subscribe()
		want(t, "at first", sub.seen(), "tls="+canary)
		time.Sleep(time.Hour)
		r.update("tls", "new")
		want(t, "an hour later", sub.seen(), "tls=new")
		sub.stop()
		time.Sleep(5 * time.Minute)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Errorf("without a subscriber: got %s, want Idle", got)
		}
	})
}

func TestChangesEnd(t *testing.T) {
	tests := map[string]func(r *rig, sub *subscriber){
		"with their context": func(_ *rig, sub *subscriber) { sub.stop() },
		"with the store":     func(r *rig, sub *subscriber) { r.stop(); <-sub.done; sub.stop() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.AddReference(namespace, "tls", "pod")
				end(r, r.subscribe())
			})
		})
	}
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		for range r.Changes(t.Context()) {
			break // the bubble reports goroutines that are left
		}
		r.stop()
		for change := range r.Changes(t.Context()) {
			t.Errorf("after the store was stopped: got %v", change.Key)
		}
	})
}

// Get returns a known immutable object to a new owner after 1.5 s of an outage.
// Changes must yield it to that owner as soon, and not when the reflector happens to
// be the probe. That is so for the second owner that comes in the outage.
func TestChangesInAnOutage(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" || request.Verb == "list" {
				time.Sleep(5 * time.Millisecond)
				return r.down.Load()
			}
			return nil
		})
		r.create("sealed", immutable)
		for i := range 100 {
			r.create("m" + strconv.Itoa(i))
			r.AddReference(namespace, "m"+strconv.Itoa(i), "pod")
		}
		r.AddReference(namespace, "sealed", "one")
		time.Sleep(20 * time.Second)
		s := r.subscribe()
		defer s.stop()
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		time.Sleep(30 * time.Second)
		s.seen()
		for _, owner := range []types.UID{"two", "three", "four"} {
			began := time.Now()
			r.AddReference(namespace, "sealed", owner)
			for len(s.seen()) == 0 && time.Since(began) < time.Hour {
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("owner %s: Changes yields the object after %v, Get would after 1.5 s", owner, took)
			}
		}
		r.refuse(nil)
	})
}

// Issue 13: a Secret has a String method, so that fmt, encoders and loggers printed the
// object of a Change. They print its key and version only.
func TestIssue13_ChangePrintsNoObjectData(t *testing.T) {
	var values canaries.Canaries
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "tls", ResourceVersion: "5", Annotations: map[string]string{"last": values.New()}},
		Data:       map[string][]byte{"password": []byte(values.New())},
	}
	key := types.NamespacedName{Namespace: namespace, Name: "tls"}
	change := objectcache.Change[*corev1.Secret]{Key: key, Object: object}
	for name, value := range map[string]any{
		"change": change, "pointer": &change, "in a slice": []objectcache.Change[*corev1.Secret]{change}, "in a struct": struct{ Change any }{change},
	} {
		values.Check(t, name, canaries.Print(value))
	}
	for want, change := range map[string]objectcache.Change[*corev1.Secret]{
		`default/tls has resource version "5"`: change,
		`default/tls was deleted`:              {Key: key, Err: errors.New("gone"), Deleted: true},
		`default/tls: refused`:                 {Key: key, Err: errors.New("refused")},
		`default/tls: no object`:               {Key: key},
	} {
		if got := change.String(); got != want {
			t.Errorf("String: got %s, want %s", got, want)
		}
	}
}

// A Change has the version of the object; after its deletion that of the deletion, which is newer.
func TestChangeHasTheVersion(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		ctx, cancel := context.WithCancel(t.Context())
		versions := make(chan string, 10)
		go func() {
			defer close(versions)
			for change := range r.Changes(ctx) {
				versions <- change.ResourceVersion
			}
		}()
		if got := <-versions; got != created.ResourceVersion {
			t.Errorf("the object: got version %q, want %q", got, created.ResourceVersion)
		}
		synctest.Wait()
		r.remove("tls")
		got := <-versions
		if order, err := states.CompareVersions(got, created.ResourceVersion); err != nil || order <= 0 {
			t.Errorf("its deletion: got version %q, want one after %q", got, created.ResourceVersion)
		}
		cancel()
		for range versions {
			t.Error("got another change")
		}
	})
}
