// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

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

// With a negative IdleTimeout no object is dropped.
func TestNeverIdle(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{IdleTimeout: -1}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.wantValue("one", "1")
		time.Sleep(5 * time.Hour)
		r.wantStreams("after five hours", 1)
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
		time.Sleep(24 * time.Hour)
		seen.clear() // resyncs
		r.wantStreams("a day later", 2)
		r.update("one", "2")
		seen.want(t, "a day later", "update one=1 to one=2")
		r.create("absent", "1")
		seen.want(t, "a day later", "add absent=1")

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

// The creation of a Secret is noticed after more than two SyncPeriods, also if the predicate of For
// ignores the reconciles of each. If it was deleted before, those reconciles are needed.
func TestCreationAfterSyncPeriods(t *testing.T) {
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
				newCache := func(config *rest.Config, stock cache.Options) (cache.Cache, error) {
					stock.SyncPeriod = new(time.Hour)
					return controllerruntime.NewCache(controllerruntime.CacheOptions{})(config, stock)
				}
				r := newManagerFor(t, server, newCache, []builder.ForOption{builder.WithPredicates(test.predicate)})
				r.stop = start(t, r.manager)
				time.Sleep(time.Minute)
				r.addOwner("one", "")
				if test.deleted {
					r.writeOwned(r.owner("one"), "1")
					r.remove("one")
				}
				r.operator.seen.clear()
				time.Sleep(3 * time.Hour)
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
		time.Sleep(30 * time.Hour)
		r.create("one", "1")
		seen.want(t, "created", "add one=1")
	})
}
