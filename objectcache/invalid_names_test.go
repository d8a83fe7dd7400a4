// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Keys that no Secret can have: users write them into optional references, which the server accepts.
var invalidKeys = map[string]types.NamespacedName{
	"upper case":          {Namespace: namespace, Name: "My_Secret"},
	"path":                {Namespace: namespace, Name: "../tls"},
	"too long":            {Namespace: namespace, Name: strings.Repeat("a", 254)},
	"namespace of a path": {Namespace: "../kube-system", Name: "tls"},
}

// everyStrategy has the strategies of stores, with options that change when a state may be served.
var everyStrategy = map[string]objectcache.StoreOptions{
	"watch":           objectcache.WatchOptions{},
	"bounded age":     objectcache.WatchOptions{MaxStaleness: time.Minute},
	"idle":            objectcache.WatchOptions{IdleTimeout: time.Minute},
	"acquire":         objectcache.WatchOptions{AcquireOnGet: time.Minute},
	"TTL":             objectcache.TTLOptions{},
	"TTL, bounded":    objectcache.TTLOptions{TTL: time.Second, MaxStaleness: time.Second},
	"TTL of no time":  objectcache.TTLOptions{TTLFunc: func() (time.Duration, bool) { return 0, true }},
	"a read each Get": objectcache.DirectOptions{},
}

// everyGet returns the errors of every kind of Get of a key.
func everyGet(ctx context.Context, store objectcache.Store[*corev1.Secret], key types.NamespacedName) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = store.Get(ctx, key.Namespace, key.Name)
	_, errs["TryGet"] = store.TryGet(key.Namespace, key.Name)
	for name, options := range map[string]objectcache.GetOptions{
		"no demands": {}, "live": {Live: true}, "version": {NotOlderThan: "1000"}, "age": {MaxStaleness: 1}, "no acquire": {NoAcquire: true},
	} {
		_, errs["GetWithOptions, "+name] = store.GetWithOptions(ctx, key.Namespace, key.Name, options)
	}
	return errs
}

// An object that cannot exist is absent, which is known without a request: for every strategy, before Run and after
// it, with and without a reference.
func TestObjectThatCannotExistIsAbsent(t *testing.T) {
	for strategy, options := range everyStrategy {
		for name, key := range invalidKeys {
			t.Run(strategy+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, apiserver.Options{InMemory: true}, options)
					began := time.Now()
					r.wantAbsent("without a reference", key)
					r.AddReference(key.Namespace, key.Name, "pod")
					r.wantAbsent("before Run", key)
					r.run()
					r.wantAbsent("after Run", key)
					if err := objectcache.WaitForSync(t.Context(), r.Store, key); err != nil {
						t.Errorf("WaitForSync: got %v, want nil", err)
					}
					time.Sleep(time.Hour)
					r.wantAbsent("after an hour", key)
					if took := time.Since(began); took != time.Hour {
						t.Errorf("the calls took %v, want no time", took-time.Hour)
					}
					r.stop()
					if _, err := r.Get(t.Context(), key.Namespace, key.Name); !errors.Is(err, objectcache.ErrStopped) {
						t.Errorf("after the end: got %v, want ErrStopped", err)
					}
					if got := r.server.Requests(); len(got) > 0 {
						t.Errorf("requests: got %d, the first one %+v, want none", len(got), got[0])
					}
				})
			})
		}
	}
}

// wantAbsent checks what every Get of a key returns.
func (r *rig) wantAbsent(when string, key types.NamespacedName) {
	r.t.Helper()
	for get, err := range everyGet(r.t.Context(), r.Store, key) {
		if !errors.Is(err, objectcache.ErrInvalidName) || !apierrors.IsNotFound(err) || errors.Is(err, objectcache.ErrNotSynced) {
			r.t.Errorf("%s, %s: got %v, want ErrInvalidName and NotFound", when, get, err)
		}
	}
}

// Owners of an object that cannot exist are counted as those of any other. Status and Stats show it as absent.
func TestReferencesToObjectsThatCannotExistAreCounted(t *testing.T) {
	for strategy, options := range everyStrategy {
		if strategy == "a read each Get" {
			continue // it counts no references
		}
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true}, options)
				want := func(when string, owners ...types.UID) {
					t.Helper()
					status, ok := r.Status(namespace, "My_Secret")
					if got := status.Owners; ok != (len(owners) > 0) || fmt.Sprint(got) != fmt.Sprint(owners) {
						t.Errorf("%s: got a status: %t, of owners %v; want %v", when, ok, got, owners)
					}
					if ok && (!status.Synced || status.Exists || status.Phase != objectcache.PhaseAbsent ||
						status.Stream != objectcache.StreamNone || status.Reason != objectcache.ReasonInvalidName || status.LastError != nil || status.Waiting != nil) {
						t.Errorf("%s: got %+v, want the status of an absent object", when, status)
					}
					objects := min(len(owners), 1)
					if got := r.Stats(); got.Objects != objects || got.Absent != objects || got.References != len(owners) {
						t.Errorf("%s: got %d objects, %d absent, %d references; want %d, %d, %d", when, got.Objects, got.Absent, got.References, objects, objects, len(owners))
					}
					if got := r.HasSynced(namespace, "My_Secret"); got != ok {
						t.Errorf("%s: HasSynced: got %t, want %t", when, got, ok)
					}
				}
				r.AddReference(namespace, "My_Secret", "a")
				want("before Run", "a")
				r.run()
				r.AddReference(namespace, "My_Secret", "a")
				r.AddReference(namespace, "My_Secret", "b")
				want("two owners", "a", "b")
				r.DeleteReference(namespace, "My_Secret", "a")
				r.DeleteReference(namespace, "My_Secret", "none")
				want("one of two references of a", "a", "b")
				r.DeleteReference(namespace, "My_Secret", "a")
				want("b alone", "b")
				r.DeleteReference(namespace, "My_Secret", "b")
				r.DeleteReference(namespace, "My_Secret", "b")
				want("none")
				r.AddReference(namespace, "My_Secret", "a")
				want("again", "a")
				if got := len(r.server.Requests()); got > 0 {
					t.Errorf("requests: got %d, want none", got)
				}
				r.stop()
				if status, _ := r.Status(namespace, "My_Secret"); status.Phase != objectcache.PhaseStopped || status.Synced {
					t.Errorf("after the end: got %+v, want it stopped", status)
				}
			})
		})
	}
}

// Changes yields an object that cannot exist once, as absent, and once more for each new owner.
func TestChangesYieldAnObjectThatCannotExist(t *testing.T) {
	for _, strategy := range []string{"watch", "bounded age", "idle", "TTL", "TTL of no time"} {
		t.Run(strategy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true}, everyStrategy[strategy])
				r.AddReference(namespace, "My_Secret", "a")
				r.run()
				var got []string
				ended := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					defer close(ended)
					for change, owners := range r.Changes(ctx) {
						if !errors.Is(change.Err, objectcache.ErrInvalidName) || !apierrors.IsNotFound(change.Err) || change.Deleted || change.Object != nil || change.ResourceVersion != "" {
							t.Errorf("got %v, want an absence", change)
						}
						got = append(got, fmt.Sprint(change.Key.Name, owners))
					}
				}()
				step := func(call func(namespace, name string, owner types.UID), owner types.UID) {
					call(namespace, "My_Secret", owner)
					time.Sleep(time.Hour)
				}
				time.Sleep(time.Hour)
				step(r.AddReference, "b")
				step(r.AddReference, "b")
				step(r.DeleteReference, "a")
				step(r.AddReference, "c")
				cancel()
				<-ended
				if want := "[My_Secret[a] My_Secret[a b] My_Secret[b c]]"; fmt.Sprint(got) != want {
					t.Errorf("got %v, want %s", got, want)
				}
				r.stop()
			})
		})
	}
}

// A key without a name, or of the wrong scope, is a mistake of the program, which no user can make. It says nothing
// about an object: it is not absent, is not counted, and does not sync.
func TestKeyThatIsAMistake(t *testing.T) {
	for strategy, options := range everyStrategy {
		for name, key := range map[string]types.NamespacedName{
			"no name": {Namespace: namespace}, "no namespace": {Name: "tls"}, "neither": {}, "no namespace, and no name of a Secret": {Name: "My_Secret"},
		} {
			t.Run(strategy+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, apiserver.Options{InMemory: true}, options)
					r.wantMistake("without a reference", key)
					r.AddReference(key.Namespace, key.Name, "pod")
					r.wantMistake("before Run", key)
					r.run()
					r.wantMistake("after Run", key)
					if err := objectcache.WaitForSync(t.Context(), r.Store, key); !errors.Is(err, objectcache.ErrInvalidName) {
						t.Errorf("WaitForSync: got %v, want ErrInvalidName", err)
					}
					if got := r.Stats(); got.Objects != 0 || got.References != 0 || got.Absent != 0 {
						t.Errorf("got %d objects, %d references and %d absent, want none", got.Objects, got.References, got.Absent)
					}
					r.DeleteReference(key.Namespace, key.Name, "pod")
					r.stop()
					if got := r.server.Requests(); len(got) > 0 {
						t.Errorf("requests: got %d, the first one %+v, want none", len(got), got[0])
					}
				})
			})
		}
	}
}

// wantMistake checks what every Get of a key returns.
func (r *rig) wantMistake(when string, key types.NamespacedName) {
	r.t.Helper()
	for get, err := range everyGet(r.t.Context(), r.Store, key) {
		if !errors.Is(err, objectcache.ErrInvalidName) || apierrors.IsNotFound(err) || errors.Is(err, objectcache.ErrNotSynced) {
			r.t.Errorf("%s, %s: got %v, want ErrInvalidName alone", when, get, err)
		}
	}
}
