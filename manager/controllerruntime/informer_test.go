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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// An immutable object keeps its stream: its deletion is an event at once, and so is the creation of the next one.
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
		time.Sleep(time.Hour)
		r.wantStreams("an hour later", 1)
		r.remove("fixed")
		seen.want(t, "deleted", "delete fixed=1")
		create("2")
		seen.want(t, "created again", "add fixed=2")
	})
}
