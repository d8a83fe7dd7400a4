// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// change is what Changes yields.
type change struct {
	objectcache.Change[*corev1.Secret]

	owners []types.UID
}

// follower collects what Changes yields.
type follower struct {
	changes chan change
	done    chan struct{}
	stop    func()
}

func (r *rig) follow() *follower {
	ctx, cancel := context.WithCancel(r.t.Context())
	f := &follower{changes: make(chan change, 1000), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for c, owners := range r.Changes(ctx) {
			f.changes <- change{c, owners}
		}
	}()
	f.stop = func() { cancel(); <-f.done }
	synctest.Wait()
	return f
}

// seen returns what came since the last call, as name=value or name gone.
func (f *follower) seen() []string {
	synctest.Wait()
	var all []string
	for {
		select {
		case change := <-f.changes:
			if change.Deleted {
				all = append(all, change.Key.Name+" gone")
			} else {
				all = append(all, change.Key.Name+"="+string(change.Object.Data["password"]))
			}
		default:
			return all
		}
	}
}

func want(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}

func TestChangesTellEveryState(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "absent", "pod")
		synctest.Wait()
		f := r.follow()
		defer f.stop()
		want(t, "to begin with", f.seen(), "tls="+canary)
		r.update("tls", "1")
		want(t, "update", f.seen(), "tls=1")
		r.remove("tls")
		want(t, "deletion", f.seen(), "tls gone")
		time.Sleep(5 * time.Minute)
		want(t, "bookmarks after it", f.seen())
		r.create("tls")
		want(t, "recreation", f.seen(), "tls="+canary)
		r.create("absent")
		want(t, "creation", f.seen(), "absent="+canary)
		r.AddReference(namespace, "tls", "other")
		want(t, "another owner", f.seen(), "tls="+canary)
		time.Sleep(6 * time.Hour) // streams end and are opened again, bookmarks come
		want(t, "reopened streams", f.seen())
	})
}

func TestChangesAcrossABrokenStream(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.create("same")
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "same", "pod")
		f := r.follow()
		defer f.stop()
		f.seen()
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		r.remove("tls")
		r.create("tls")
		r.update("tls", "new")
		want(t, "during the outage", f.seen())
		r.refuse(nil)
		time.Sleep(time.Minute)
		want(t, "after it", f.seen(), "tls=new")
	})
}

// A follower that is slow gets the newest state, once, and delays nobody.
func TestChangesKeepTheNewestForASlowFollower(t *testing.T) {
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
			t.Errorf("Get beside a slow follower: got %q, want 99", got.Data["password"])
		}
		next <- struct{}{}
		synctest.Wait()
		cancel()
		close(next)
		var all []string
		for value := range got {
			all = append(all, value)
		}
		want(t, "the slow follower", all, canary, "99")
	})
}

func TestChangesNameTheOwners(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "b")
		f := r.follow()
		defer f.stop()
		r.AddReference(namespace, "tls", "a")
		f.seen()
		r.update("tls", "new")
		if got := (<-f.changes).owners; fmt.Sprint(got) != "[a b]" {
			t.Errorf("owners: got %v, want a and b", got)
		}
	})
}

func TestChangesAfterTheLastReference(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		f := r.follow()
		defer f.stop()
		f.seen()
		r.DeleteReference(namespace, "tls", "pod")
		want(t, "let go", f.seen())
		r.AddReference(namespace, "tls", "pod")
		want(t, "referenced again", f.seen(), "tls="+canary)
	})
}

// A follower that did not see the gap is told again all the same: its owners are
// others.
func TestChangesAfterAGapThatNobodySaw(t *testing.T) {
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
		want(t, "owners told of", owners, "[pod-1]", "[pod-2]")
	})
}

// Nobody who follows is cut off silently: nothing goes idle meanwhile, and what
// was idle before is started again.
func TestChangesKeepObjectsFromIdling(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(5 * time.Minute)
		if got := r.phase("tls"); got != objectcache.Idle {
			t.Fatalf("phase: got %s, want Idle", got)
		}
		f := r.follow()
		want(t, "to begin with", f.seen(), "tls="+canary)
		time.Sleep(time.Hour)
		r.update("tls", "new")
		want(t, "an hour later", f.seen(), "tls=new")
		f.stop()
		time.Sleep(5 * time.Minute)
		if got := r.phase("tls"); got != objectcache.Idle {
			t.Errorf("with nobody following: got %s, want Idle", got)
		}
	})
}

func TestChangesEnd(t *testing.T) {
	tests := map[string]func(r *rig, f *follower){
		"with their context": func(_ *rig, f *follower) { f.stop() },
		"with the store":     func(r *rig, f *follower) { r.stop(); <-f.done; f.stop() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.AddReference(namespace, "tls", "pod")
				end(r, r.follow())
			})
		})
	}
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		for range r.Changes(t.Context()) {
			break // left early: the bubble reports what stays behind
		}
		r.stop()
		for change := range r.Changes(t.Context()) {
			t.Errorf("after the store was stopped: got %v", change.Key)
		}
	})
}
