// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// kubernetes#118566: a mutable object without a watch, as if it were immutable.
func TestReadOnceIsReadForEachNewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.update("tls", "1")
		r.AddReadOnceReference(namespace, "tls", "pod-1")
		r.wantValue("first owner", "tls", "1")
		r.wantPhase("first owner", "tls", servingReadOnce, 0)
		sub := r.subscribe()
		defer sub.stop()
		want(t, "first owner", sub.seen(), "tls=1")
		read := r.reads("tls")
		r.update("tls", "2")
		r.AddReadOnceReference(namespace, "tls", "pod-1") // not a new owner
		time.Sleep(24 * time.Hour)
		r.wantValue("a day later", "tls", "1") // MaxStaleness does not apply
		if got := r.reads("tls"); got != read {
			t.Errorf("reads without a new owner: got %d, want none", got-read)
		}
		r.AddReadOnceReference(namespace, "tls", "pod-2")
		r.wantValue("second owner", "tls", "2")
		r.wantPhase("second owner", "tls", servingReadOnce, 0)
		want(t, "second owner", sub.seen(), "tls=2")
		if got := r.reads("tls"); got != read+1 {
			t.Errorf("reads for the second owner: got %d, want 1", got-read)
		}
		for range 2 {
			r.DeleteReference(namespace, "tls", "pod-1")
		}
		r.DeleteReference(namespace, "tls", "pod-2")
		if _, ok := r.Status(namespace, "tls"); ok {
			t.Error("the object is referenced after all references were deleted")
		}
	})
}

// The stream lives as long as the ordinary references.
func TestReadOnceBesideOrdinaryReferences(t *testing.T) {
	tests := map[string]struct{ add, remove func(*rig) }{
		"of another owner": {
			func(r *rig) { r.AddReference(namespace, "tls", "pod-2") },
			func(r *rig) { r.DeleteReference(namespace, "tls", "pod-2") },
		},
		"of the same owner": { // it changes the kind of its reference, and back
			func(r *rig) {
				r.AddReference(namespace, "tls", "pod-1")
				r.DeleteReference(namespace, "tls", "pod-1")
			},
			func(r *rig) {
				r.AddReadOnceReference(namespace, "tls", "pod-1")
				r.DeleteReference(namespace, "tls", "pod-1")
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReadOnceReference(namespace, "tls", "pod-1")
				for i := range 3 {
					r.wantPhase("read-once", "tls", servingReadOnce, 0)
					r.update("tls", fmt.Sprint(i))
					test.add(r)
					r.wantPhase("ordinary", "tls", servingNamed, 1)
					r.wantValue("ordinary", "tls", fmt.Sprint(i))
					r.update("tls", "watched")
					r.wantValue("ordinary", "tls", "watched")
					test.remove(r)
				}
				r.wantPhase("read-once", "tls", servingReadOnce, 0)
				r.wantValue("read-once", "tls", "watched")
			})
		})
	}
}

// An ordinary owner waits for a read that begins after its reference, too.
func TestOrdinaryOwnerOfAReadOnceObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReadOnceReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		r.update("tls", "new")
		r.AddReference(namespace, "tls", "pod-2")
		r.wantValue("at once", "tls", "new")
	})
}

// An owner that is added while a read is under way needs the next one. With a stream
// it would need none.
func TestReadOnceOwnerDuringARead(t *testing.T) {
	tests := map[string]func(*rig){
		"first read":                func(*rig) {},
		"read for another owner":    func(r *rig) { r.AddReadOnceReference(namespace, "tls", "pod-0"); r.mustGet("tls") },
		"read of an ordinary owner": func(r *rig) { r.AddReference(namespace, "tls", "pod-0") },
	}
	for name, first := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				late := &lateTransport{}
				r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
				r.Store = newStore(t, resource.Secrets(late.client(r)), objectcache.WatchOptions{})
				r.run()
				r.create("tls")
				first(r)
				release := late.hold()
				r.AddReadOnceReference(namespace, "tls", "pod-1")
				synctest.Wait() // the server has read the object
				r.update("tls", "new")
				r.AddReadOnceReference(namespace, "tls", "pod-2")
				r.DeleteReference(namespace, "tls", "pod-0")
				got := r.async(t.Context(), "tls")
				release()
				if result := <-got; result.err != nil || string(result.secret.Data["password"]) != "new" {
					t.Errorf("got %v, %v, want the state after the reference", result.secret, result.err)
				}
				time.Sleep(time.Minute)
				r.wantPhase("in the end", "tls", servingReadOnce, 0)
				r.stop()
			})
		})
	}
}

// An owner that was added while a stream was open gets a read of its own before the
// stream ends, and keeps the state meanwhile: the server may have lagged.
func TestLastOrdinaryReferenceAtALaggingServer(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		r.AddReadOnceReference(namespace, "tls", "pod-2")
		before := r.reads("tls")
		release := r.holdBack("list")
		r.DeleteReference(namespace, "tls", "pod-1")
		r.within("tls", 0, r.mustGet("tls").UID)
		r.AddReadOnceReference(namespace, "tls", "pod-3")
		got := r.async(t.Context(), "tls")
		r.update("tls", "new")
		release()
		if result := <-got; result.err != nil || string(result.secret.Data["password"]) != "new" {
			t.Errorf("new owner: got %v, %v, want the state after its reference", result.secret, result.err)
		}
		r.wantPhase("in the end", "tls", servingReadOnce, 0)
		if got := r.reads("tls") - before; got < 1 || got > 2 {
			t.Errorf("reads: got %d, want one for each owner, or for both", got)
		}
	})
}

// As for an immutable object, a stream reports the creation of an absent one.
func TestReadOnceObjectThatIsAbsent(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for range 2 {
			r.AddReadOnceReference(namespace, "tls", "pod-1")
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("absent: got %v, want NotFound", err)
			}
			r.wantPhase("absent", "tls", absentNamed, 1)
			r.AddReadOnceReference(namespace, "tls", "pod-2")
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("absent, second owner: got %v, want NotFound", err)
			}
			r.create("tls")
			r.wantPhase("created", "tls", servingReadOnce, 0)
			r.mustGet("tls")
			r.remove("tls")
			r.mustGet("tls")
			r.AddReadOnceReference(namespace, "tls", "pod-3")
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("deleted, new owner: got %v, want NotFound", err)
			}
			r.wantPhase("deleted", "tls", absentNamed, 1)
			for _, owner := range []types.UID{"pod-1", "pod-2", "pod-3"} {
				r.DeleteReference(namespace, "tls", owner)
			}
		}
	})
}

// Owners keep the object that they have when the read for a new owner fails.
func TestReadOnceDuringAnOutage(t *testing.T) {
	for name, err := range map[string]*apierrors.StatusError{"outage": unavailable(), "refused": forbidden()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				uid := r.create("tls").UID
				r.AddReadOnceReference(namespace, "tls", "pod-1")
				r.mustGet("tls")
				r.refuse(err)
				r.AddReadOnceReference(namespace, "tls", "pod-2")
				if got, err := r.TryGet(namespace, "tls"); err != nil || got.UID != uid {
					t.Errorf("TryGet before the read: got %v, %v, want the object", got, err)
				}
				r.within("tls", 0, uid)
				r.AddReference(namespace, "tls", "pod-3")
				r.within("tls", 0, uid)
				r.DeleteReference(namespace, "tls", "pod-3")
				r.refuse(nil)
				time.Sleep(time.Minute)
				r.wantPhase("in the end", "tls", servingReadOnce, 0)
				r.within("tls", time.Millisecond, uid)
			})
		})
	}
}

// Get demands make an object be read that has no stream. Attempts that fail are paced.
func TestDemandsOnAnObjectWithoutAStream(t *testing.T) {
	demands := map[string]func(version string) objectcache.GetOptions{
		"live":           func(string) objectcache.GetOptions { return objectcache.GetOptions{Live: true} },
		"not older than": func(version string) objectcache.GetOptions { return objectcache.GetOptions{NotOlderThan: version} },
		"max staleness":  func(string) objectcache.GetOptions { return objectcache.GetOptions{MaxStaleness: time.Nanosecond} },
	}
	for name, demand := range demands {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReadOnceReference(namespace, "tls", "pod")
				r.mustGet("tls")
				options := demand(r.update("tls", "new").ResourceVersion)
				time.Sleep(time.Second) // the state is older than a nanosecond
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						time.Sleep(time.Duration(i) * time.Microsecond)
						got, err := r.GetWithOptions(t.Context(), namespace, "tls", options)
						if err != nil || string(got.Data["password"]) != "new" {
							t.Errorf("got %v, %v, want the new state", got, err)
						}
					})
				}
				all.Wait()
				r.wantPhase("after the reads", "tls", servingReadOnce, 0)
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
				if got, after := during-before, r.reads("tls")-during; got == 0 || got > 10 || after > 2 {
					t.Errorf("refused reads: got %d, and %d more, want those of a back-off, and those of an attempt that was under way", got, after)
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

// An object that is immutable and read-once is not read again without a new owner.
func TestReadOnceAndImmutable(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReadOnceReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		for range 2 {
			before := r.reads("tls")
			time.Sleep(time.Hour)
			r.wantPhase("read-once", "tls", servingReadOnce, 0)
			if got := r.reads("tls") - before; got != 0 {
				t.Errorf("read-once: got %d reads in an hour, want none", got)
			}
			r.AddReference(namespace, "tls", "pod-2")
			r.mustGet("tls")
			r.wantPhase("ordinary reference", "tls", servingImmutable, 0)
			before = r.reads("tls")
			time.Sleep(time.Hour)
			if got := r.reads("tls") - before; got < 30 || got > 60 {
				t.Errorf("ordinary reference: got %d reads in an hour, want one every one to two minutes", got)
			}
			r.DeleteReference(namespace, "tls", "pod-2")
		}
	})
}

// An idle object is dropped, read-once or not.
func TestReadOnceAndIdleTimeout(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReadOnceReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(2 * time.Minute)
		r.wantPhase("idle", "tls", objectcache.PhaseIdle, 0)
		r.update("tls", "new")
		r.wantValue("after it was idle", "tls", "new")
		r.wantPhase("after it was idle", "tls", servingReadOnce, 0)
	})
}

// Owners of read-once references want no bound on the age of an object: Status says so, too.
func TestStatusOfAnOldReadOnceObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 2 * time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReadOnceReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(time.Hour)
		check := func(when string) {
			if _, err := r.TryGet(namespace, "tls"); err != nil {
				t.Errorf("%s: TryGet: %v", when, err)
			}
			if status, _ := r.Status(namespace, "tls"); !status.Synced {
				t.Errorf("%s: got %+v, want it synced, as Get returns the object at once", when, status)
			}
		}
		check("an hour later")
		r.refuse(unavailable())
		r.AddReadOnceReference(namespace, "tls", "another")
		time.Sleep(10 * time.Second)
		check("with a new owner, for whom it cannot be read")
	})
}
