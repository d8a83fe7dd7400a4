// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Immutable objects have no stream. They are not counted, and do not begin a shared stream.
func TestSharedImmutable(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		for _, name := range all[:4] {
			r.create(name, immutable)
		}
		r.createAll(all[4:]...)
		r.reference(all[:3]...)
		r.reference(all[3:6]...)
		time.Sleep(joined)
		r.wantStreams("two that change", 0, 2)
		r.wantPhase("two that change", servingImmutable, all[:4]...)
		for _, name := range all[:4] {
			r.AddReference(namespace, name, "pod-2") // which reads the object again
		}
		r.wantValues("another owner", canary, all[:4]...)
		if got := r.sharedRequests(); got != 0 {
			t.Errorf("requests for the namespace: got %d, want none", got)
		}
		r.reference(all[6:]...)
		time.Sleep(joined)
		r.wantStreams("four that change", 1, 0)
		r.seal(all[4], "sealed")
		r.wantValues("sealed", "sealed", all[4])
		time.Sleep(joined)
		r.wantPhase("sealed", servingImmutable, all[:5]...)
		r.remove(all[4])
		r.create(all[4], func(s *corev1.Secret) { s.Data["password"] = []byte("other") })
		time.Sleep(time.Hour)
		r.wantValues("created again", "other", all[4])
		r.wantPhase("created again", servingShared, all[4:]...)
		r.wantStreams("in the end", 1, 0)
	})
}

// Reads for the owners of one object are not reads for those of another: a new owner of an immutable object gets the
// object that was created in its place.
func TestSharedReadsAreNotForOwners(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for _, owner := range []types.UID{"a", "b", "c", "d"} {
			r.AddReference(namespace, all[1], owner)
		}
		r.closeShared()
		time.Sleep(time.Minute)
		r.seal(all[0], "old")
		time.Sleep(time.Minute)
		r.wantPhase("sealed", servingImmutable, all[0])
		r.remove(all[0])
		r.create(all[0], immutable)
		r.AddReference(namespace, all[0], "pod-2")
		if got := r.mustGet(all[0]); string(got.Data["password"]) != canary {
			t.Errorf("created again: got %q, want the new object", got.Data)
		}
	})
}

// A Get that demands a read gets one of its own.
func TestSharedDemands(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		reads := r.opens(all[0])
		got, err := r.GetWithOptions(t.Context(), namespace, all[0], objectcache.GetOptions{Live: true})
		if err != nil || string(got.Data["password"]) != "0" {
			t.Errorf("live Get: got %v, %v", got, err)
		}
		if r.opens(all[0]) != reads+1 {
			t.Errorf("reads: got %d, want 1", r.opens(all[0])-reads)
		}
		time.Sleep(joined)
		r.wantStreams("joined again", 1, 0)
		version := r.update(all[1], "1").ResourceVersion
		if got, err := r.GetWithOptions(t.Context(), namespace, all[1], objectcache.GetOptions{NotOlderThan: version}); err != nil || got.ResourceVersion != version {
			t.Errorf("Get of a version: got %v, %v", got, err)
		}
		later := make(chan error, 1)
		go func() {
			_, err := r.GetWithOptions(t.Context(), namespace, all[2], objectcache.GetOptions{NotOlderThan: next(version)})
			later <- err
		}()
		time.Sleep(50 * time.Millisecond)
		reads = r.opens(all[2])
		r.update(all[3], "1")
		if err := <-later; err != nil {
			t.Errorf("Get of a version of another object: got %v", err)
		}
		if r.opens(all[2]) != reads {
			t.Error("Get of a version of another object: got a read of its own, want the shared stream to bring it")
		}
	})
}

// Live Gets that follow each other fast wait for a read of their own. They disturb no other object of the stream.
func TestSharedDemandsInARow(t *testing.T) {
	inSharedBubble(t, sharedOptions(3), func(t *testing.T, r *sharedRig) {
		all := names(4)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		before := r.sharedRequests()
		for _, options := range []objectcache.GetOptions{{Live: true}, {MaxStaleness: 10 * time.Millisecond}} {
			for range 5 {
				version := r.update(all[0], "1").ResourceVersion
				time.Sleep(20 * time.Millisecond)
				got, err := r.GetWithOptions(t.Context(), namespace, all[0], options)
				if err != nil || got.ResourceVersion != version {
					t.Errorf("%+v: got %v, %v, want version %s", options, got, err, version)
				}
			}
		}
		if got := r.sharedRequests() - before; got != 0 {
			t.Errorf("got %d requests for the namespace, want none", got)
		}
	})
}

// A read of one object counts for its age also after the object has joined the shared stream again.
func TestSharedObjectThatWasRead(t *testing.T) {
	inSharedBubble(t, sharedOptions(3), func(t *testing.T, r *sharedRig) {
		all := names(4)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined + 30*time.Second)
		began, before := time.Now(), r.reads(all[0])
		for range 10 {
			if _, err := r.GetWithOptions(t.Context(), namespace, all[0], objectcache.GetOptions{MaxStaleness: 10 * time.Second}); err != nil {
				t.Error(err)
			}
			time.Sleep(300 * time.Millisecond)
			if status, _ := r.Status(namespace, all[0]); status.Phase != objectcache.PhaseServing || status.Stream != objectcache.StreamShared || status.LastContact.Before(began) {
				t.Errorf("got phase %s and contact %v before the read, want it shared, and no earlier contact", status.Phase, began.Sub(status.LastContact))
			}
		}
		if got, took := r.reads(all[0])-before, time.Since(began); got != 1 || took > 4*time.Second {
			t.Errorf("10 Gets, 0.3 s apart, with a bound of 10 s: got %d reads in %v, want 1 in 3 s", got, took)
		}
	})
}

// next returns the version after a version.
func next(version string) string {
	number, _ := strconv.Atoi(version)
	return strconv.Itoa(number + 1)
}

// The age of an object is that of the last contact of the shared stream.
func TestSharedStaleness(t *testing.T) {
	options := sharedOptions(4)
	options.MaxStaleness = 150 * time.Second
	inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for range 10 {
			time.Sleep(35 * time.Second)
			if _, err := r.TryGet(namespace, all[3]); err != nil {
				t.Errorf("bookmarks arrive: got %v", err)
			}
			if status, _ := r.Status(namespace, all[3]); time.Since(status.LastContact) > 61*time.Second {
				t.Errorf("LastContact: got %v ago, want a minute at most", time.Since(status.LastContact))
			}
		}
	})
}

// A Get of a state that is too old reads the namespace again, once for all members.
func TestSharedStaleStateIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := sharedOptions(4)
		options.MaxStaleness = 10 * time.Second
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, options)}
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		r.run()
		time.Sleep(30 * time.Second) // bookmarks come once a minute
		before := len(r.server.Requests())
		r.wantValues("stale", "0", all...)
		if got := r.server.Requests()[before:]; len(got) != 1 || !isShared(got[0]) {
			t.Errorf("requests: got %v, want one of the namespace", got)
		}
		r.stop()
	})
}

// An idle object leaves the shared stream.
func TestSharedIdle(t *testing.T) {
	options := sharedOptions(4)
	options.IdleTimeout = 20 * time.Minute
	inSharedBubble(t, options, func(t *testing.T, r *sharedRig) {
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		for range 8 {
			r.wantValues("in use", "0", all[:4]...)
			time.Sleep(10 * time.Minute)
		}
		r.wantStreams("two are idle", 1, 0)
		r.wantPhase("two are idle", objectcache.PhaseIdle, all[4:]...)
		r.update(all[4], "1")
		r.wantValues("in use again", "1", all[4])
		time.Sleep(time.Hour)
		r.wantStreams("all are idle", 0, 0)
	})
}

// The function of WithTransform is applied to what the shared stream brings. If it fails for an object, the others get
// streams of their own at once.
func TestSharedTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, sharedOptions(4))}
		resource := resource.Secrets(r.client).WithTransform(func(secret *corev1.Secret) *corev1.Secret {
			if string(secret.Data["password"]) == "bad" {
				panic("bad")
			}
			secret.Data["password"] = append([]byte("transformed "), secret.Data["password"]...)
			return secret
		})
		r.Store = newStore(t, resource, sharedOptions(4))
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		r.run()
		sub := r.subscribe()
		defer sub.stop()
		time.Sleep(joined)
		r.wantPhase("at first", servingShared, all...)
		r.wantValues("at first", "transformed 0", all...)
		sub.seen()
		r.update(all[1], "1")
		r.wantValues("changed", "transformed 1", all[1])
		want(t, "changed", sub.seen(), all[1]+"=transformed 1")
		r.update(all[0], "bad")
		r.update(all[1], "2")
		time.Sleep(3 * time.Second)
		r.wantValues("a bad object", "transformed 2", all[1])
		time.Sleep(retried)
		r.wantPhase("in the end", servingShared, all[1:]...)
		r.stop()
	})
}
