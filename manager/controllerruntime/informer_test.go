// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// An informer has events of the objects that Gets have asked for, and of no others.
func TestInformer(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("other", "x")
		r.wantValue("one", "1")
		seen := r.record(&corev1.Secret{})
		seen.want(t, "start", "add one=1")
		r.update("one", "2")
		r.update("other", "y")
		seen.want(t, "update", "update one=1 to one=2")
		r.remove("one")
		seen.want(t, "delete", "delete one=2")
		r.create("one", "3")
		seen.want(t, "create", "add one=3")
		r.wantValue("other", "y")
		seen.want(t, "asked for", "add other=y")
	})
}

// An object that is deleted and created again while its stream is broken is another
// object: handlers see its end and its beginning.
func TestInformerSeesAnotherObject(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		seen := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		seen.want(t, "start", "add one=1")
		release := r.hold("one")
		r.server.CloseStreams(nil)
		r.remove("one")
		r.create("one", "2")
		release()
		time.Sleep(time.Minute)
		seen.want(t, "created again", "delete one=1", "add one=2")
	})
}

// An informer syncs at once, though nothing is referenced or the server refuses all.
func TestInformerSyncsAtOnce(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		c, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(server.Config(), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, server: server, client: server.Client(), cache: c}
		informer, err := c.GetInformer(t.Context(), &corev1.Secret{}) // before Start it does not wait
		if err != nil || informer.HasSynced() || informer.IsStopped() {
			t.Fatalf("got synced %v, stopped %v and %v, want an informer that was not started", informer.HasSynced(), informer.IsStopped(), err)
		}
		if _, err := r.get("one"); !errors.As(err, new(*cache.ErrCacheNotStarted)) {
			t.Errorf("before Start: got %v, want ErrCacheNotStarted", err)
		}
		stop := start(t, c)
		began := time.Now()
		if !c.WaitForCacheSync(t.Context()) || !informer.HasSynced() || time.Since(began) > time.Second {
			t.Errorf("got synced %v after %v, want it at once", informer.HasSynced(), time.Since(began))
		}
		ofKind, err := c.GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("Secret"))
		if err != nil || ofKind != informer {
			t.Errorf("GetInformerForKind: got %v and %v, want the same informer", ofKind, err)
		}
		if err := c.Start(t.Context()); err == nil {
			t.Error("a second Start: got no error")
		}
		stop()
		if !informer.IsStopped() {
			t.Error("the informer still runs after Start has returned")
		}
	})
}

// Without an informer, an object that no Get asks for is dropped. The next Get reads it
// again.
func TestIdleWithoutInformer(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: time.Minute}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("used", "1")
		r.wantValue("one", "1")
		for range 6 {
			r.wantValue("used", "1")
			time.Sleep(20 * time.Second)
		}
		if got := r.streams(); got != 1 {
			t.Errorf("got %d streams, want that of the object in use", got)
		}
		r.update("one", "2")
		r.wantValue("one", "2")
	})
}

// The shortest IdleTimeout that is valid does no harm.
func TestShortestIdleTimeout(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: 1}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		for range 10 {
			r.wantValue("one", "1")
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// With an informer no change of an object that was asked for is lost: it is kept while it
// exists, and so is one that has never existed. One that was deleted is kept after a Get
// for longer than SyncPeriod, which repeats the reconciles, else for IdleTimeout.
func TestIdleWithInformer(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: time.Minute}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		seen := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		_, _ = r.get("absent")
		seen.want(t, "start", "add one=1")
		time.Sleep(100 * time.Hour)
		seen.clear() // resyncs
		r.wantStreams("after 100 hours", 2)
		r.update("one", "2")
		seen.want(t, "after 100 hours", "update one=1 to one=2")
		r.create("absent", "1")
		seen.want(t, "after 100 hours", "add absent=1")

		r.remove("one")
		r.remove("absent")
		seen.want(t, "deleted", "delete one=2", "delete absent=1")
		time.Sleep(30 * time.Second)
		r.wantStreams("before IdleTimeout", 2) // the reconcile of the deletion may ask for them
		_, _ = r.get("one")
		time.Sleep(24 * time.Hour)
		r.wantStreams("a day after the deletion", 1)
		r.create("one", "3")
		seen.want(t, "created again", "add one=3")
		r.remove("one")
		seen.clear()
		time.Sleep(time.Hour)
		r.wantStreams("deleted again, and not asked for since", 0)

		_, _ = r.get("one")
		r.create("one", "4")
		r.wantValue("one", "4")
		r.remove("one")
		_, _ = r.get("one")
		time.Sleep(26 * time.Hour)
		r.wantStreams("26 hours after the last Get", 0)
	})
}

// With an informer of metadata, typed Gets say which objects are needed.
func TestIdleWithInformerOfMetadata(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: time.Minute}, cache.Options{}, func(t *testing.T, r *rig) {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		seen := r.record(metadata)
		for _, name := range []string{"asked", "forgotten"} {
			r.create(name, "1")
			r.wantValue(name, "1")
			r.remove(name)
		}
		_, _ = r.get("asked")
		_, _ = r.get("absent")
		time.Sleep(24 * time.Hour)
		r.wantStreams("a day later", 2)
		seen.clear()
		r.create("asked", "2")
		r.create("absent", "2")
		seen.want(t, "created", "add asked", "add absent")
	})
}

// The creation of a Secret is noticed after days, also if the predicate of For ignores the
// reconciles of each SyncPeriod. If it was deleted before, those reconciles are needed.
func TestCreationAfterDays(t *testing.T) {
	tests := map[string]struct {
		deleted   bool
		predicate predicate.Predicate
	}{
		"never existed, reconciles are not repeated": {false, predicate.GenerationChangedPredicate{}},
		"deleted, reconciles are repeated":           {true, predicate.Funcs{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, server *apiserver.Server) {
				newCache := controllerruntime.NewCache(controllerruntime.CacheOptions{})
				r := newManagerFor(t, server, newCache, []builder.ForOption{builder.WithPredicates(test.predicate)})
				r.stop = start(t, r.manager)
				time.Sleep(time.Minute)
				r.addOwner("one", "")
				if test.deleted {
					r.writeOwned(r.owner("one"), "1")
					r.remove("one")
				}
				r.operator.seen.clear()
				time.Sleep(100 * time.Hour)
				if repeated := r.operator.seen.any(); repeated != test.deleted {
					t.Fatalf("got repeated reconciles: %v, want %v", repeated, test.deleted)
				}
				r.operator.seen.clear()
				r.writeOwned(r.owner("one"), "2")
				r.operator.seen.want(t, "created", "one: 2")
				r.stop()
			})
		})
	}
}

// With a SyncPeriod of 0 nothing repeats the reconciles, so deleted objects are kept. An
// operator sets it whose predicates ignore the repetitions.
func TestCreationWithoutSyncPeriod(t *testing.T) {
	stock := cache.Options{SyncPeriod: new(time.Duration(0))}
	inBubble(t, controllerruntime.CacheOptions{}, stock, func(t *testing.T, r *rig) {
		seen := r.record(&corev1.Secret{})
		r.create("one", "1")
		r.wantValue("one", "1")
		r.remove("one")
		_, _ = r.get("one")
		seen.clear()
		time.Sleep(100 * time.Hour)
		r.create("one", "1")
		seen.want(t, "created", "add one=1")
	})
}

// RemoveInformer ends the informer, and the streams of what no Get asks for. The next
// informer begins with what is in memory.
func TestRemoveInformer(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: time.Hour}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		first := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		first.want(t, "start", "add one=1")
		if err := r.cache.RemoveInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		second := r.record(&corev1.Secret{})
		second.want(t, "another informer", "add one=1")
		r.update("one", "2")
		second.want(t, "another informer", "update one=1 to one=2")
		first.want(t, "removed")
		_ = r.cache.RemoveInformer(t.Context(), &corev1.Secret{})
		_ = r.cache.RemoveInformer(t.Context(), &corev1.Secret{})
		time.Sleep(2 * time.Hour)
		if got := r.streams(); got != 0 {
			t.Errorf("got %d streams, want none", got)
		}
	})
}

// A typed Get is enough for events of metadata: builder.OnlyMetadata goes on to work.
func TestOwnsOnlyMetadata(t *testing.T) {
	withManager(t, controllerruntime.NewCache(controllerruntime.CacheOptions{}), func(t *testing.T, r *managerRig) {
		r.server.Authorize(onlyNamed)
		r.addOwner("one", "1")
		r.operator.seen.clear()
		r.writeOwned(r.owner("one"), "2")
		if !r.operator.seen.any() { // the typed stream may be behind
			t.Error("got no reconcile after a change")
		}
	}, builder.OnlyMetadata)
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.wantValue("one", "1")
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		seen := r.record(metadata)
		seen.want(t, "a Get before the informer", "add one")
	})
}

// The informer that cache.Options.NewInformer makes is used.
func TestNewInformer(t *testing.T) {
	made := 0
	stock := cache.Options{NewInformer: func(lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		made++
		return toolscache.NewSharedIndexInformer(lw, example, resync, indexers)
	}}
	inBubble(t, controllerruntime.CacheOptions{}, stock, func(t *testing.T, r *rig) {
		r.record(&corev1.Secret{})
		if made != 1 {
			t.Errorf("got %d informers made, want 1", made)
		}
	})
}

// Each replica runs the cache, also those that are not the leader.
func TestNeedsNoLeaderElection(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		if r.cache.(manager.LeaderElectionRunnable).NeedLeaderElection() {
			t.Error("the cache needs leader election")
		}
	})
}

// Other kinds are served by the stock cache.
func TestOtherKinds(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		if err := r.cache.IndexField(t.Context(), &corev1.ConfigMap{}, "x", func(o client.Object) []string { return []string{o.GetName()} }); err != nil {
			t.Fatal(err)
		}
		one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
		if _, err := r.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		seen := r.record(&corev1.ConfigMap{})
		seen.want(t, "start", "add one")
		list := &corev1.ConfigMapList{}
		if err := r.cache.List(t.Context(), list, client.MatchingFields{"x": "one"}); err != nil || len(list.Items) != 1 {
			t.Errorf("got %d ConfigMaps and %v, want one", len(list.Items), err)
		}
		if err := r.cache.Get(t.Context(), keyOfOne, &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
		if _, err := r.cache.GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("ConfigMap")); err != nil {
			t.Error(err)
		}
		if err := r.cache.RemoveInformer(t.Context(), &corev1.ConfigMap{}); err != nil {
			t.Error(err)
		}
		if err := r.cache.Get(t.Context(), keyOfOne, &unknown{}); err == nil || apierrors.IsNotFound(err) {
			t.Errorf("a type without a kind: got %v, want the error of the scheme", err)
		}
		if got := secretRequests(r.server); !slices.Equal(got, nil) {
			t.Errorf("got requests for Secrets %q, want none", got)
		}
	})
}

// unknown is a type that no scheme has.
type unknown struct{ corev1.Pod }

// A server that was restored from a backup gives a version again to another write. Then
// handlers have an event, too. Objects that the restore has not changed have none.
func TestInformerAfterRestore(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("same", "1")
		if _, err := r.cache.GetInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // client-go leaves handlers of a running informer out of the first resync
		seen := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		r.wantValue("same", "1")
		time.Sleep(12 * time.Hour) // after the first resync, before the second
		seen.clear()
		before := r.server.Snapshot()
		r.update("one", "2")
		seen.want(t, "before", "update one=1 to one=2")
		release := r.hold("one")
		r.server.Restore(before)
		r.update("one", "3")
		release()
		time.Sleep(10 * time.Minute)
		r.wantValue("one", "3")
		seen.want(t, "restored", "delete one=2", "add one=3")
	})
}

// With a SyncPeriod of 0 no reconcile is repeated, so an absent object is kept.
func TestCreationWithoutResyncs(t *testing.T) {
	newCache := func(config *rest.Config, stock cache.Options) (cache.Cache, error) {
		stock.SyncPeriod = new(time.Duration(0))
		return controllerruntime.NewCache(controllerruntime.CacheOptions{})(config, stock)
	}
	withManager(t, newCache, func(t *testing.T, r *managerRig) {
		r.addOwner("one", "")
		time.Sleep(100 * time.Hour)
		r.operator.seen.clear()
		r.writeOwned(r.owner("one"), "1")
		r.operator.seen.want(t, "created", "one: 1")
	})
}

// The deletion of an immutable object is an event at once, and so is the next one.
func TestInformerOfImmutableObjects(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		seen := r.record(&corev1.Secret{})
		create := func(value string) {
			secret := secretNamed("fixed", value)
			secret.Immutable = new(true)
			if _, err := r.client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		create("1")
		r.wantValue("fixed", "1")
		seen.want(t, "created", "add fixed=1")
		r.remove("fixed")
		seen.want(t, "deleted", "delete fixed=1")
		create("2")
		seen.want(t, "created again", "add fixed=2")
	})
}
