// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/storetest"
)

// A server whose watch cache lags goes on to send bookmarks, at its old version. They make the state no newer: a Get
// that demands a later version does not return the old state, and the change is there once the cache has caught up.
func TestBookmarksOfALaggingServer(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.Sleep(3 * time.Minute) // the form of bookmarks is known
		r.server.Lag(3 * time.Second)
		version := r.update("tls", "new").ResourceVersion
		time.Sleep(5 * time.Minute)
		got, err := r.demandFor(10*time.Second, "tls", objectcache.GetOptions{NotOlderThan: version})
		if err == nil && valueOf(got) != "new" {
			t.Errorf("a Get that demands version %s got %q of version %s", version, valueOf(got), got.ResourceVersion)
		}
		r.server.CatchUp()
		time.Sleep(20 * time.Second)
		r.wantValue("after the lag", "tls", "new")
		r.update("tls", "newest")
		r.wantValue("later", "tls", "newest")
	})
}

// An object is deleted and created again while bookmarks are taken. The order of all is kept.
func TestRecreatedBetweenBookmarks(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{MaxStaleness: 3 * time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		follower := r.subscribe()
		defer follower.stop()
		want(t, "at first", follower.seen(), "tls="+canary)
		for i := range 5 {
			time.Sleep(2*time.Minute + time.Duration(i)*15*time.Second)
			r.remove("tls")
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("after it was deleted: got %v", err)
			}
			time.Sleep(2 * time.Minute)
			created := r.create("tls")
			if got := r.mustGet("tls"); got.UID != created.UID {
				t.Errorf("got UID %s, want that of the new object, %s", got.UID, created.UID)
			}
			want(t, "recreated", follower.seen(), "tls gone", "tls="+canary)
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("got %d streams, want 1", got)
		}
	})
}

// A function of WithTransform may call the store, and panic, and delays no other object: it never runs on the goroutine
// that reads the connection.
func TestTransformCallsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true}), stop: func() {}}
		r.client = r.server.Client()
		var store *objectcache.WatchStore[*corev1.Secret]
		var reader atomic.Bool
		transform := func(secret *corev1.Secret) *corev1.Secret {
			stack := make([]byte, 1<<16)
			if strings.Contains(string(stack[:goruntime.Stack(stack, false)]), "transport.(*conn).read") {
				reader.Store(true)
			}
			store.Stats()
			_, _ = store.TryGet(namespace, secret.Name)
			store.HasSynced(namespace, secret.Name)
			store.AddReference(namespace, "of-"+secret.Name, "transform")
			switch string(secret.Data["password"]) {
			case "panic":
				panic(canary)
			case "slow":
				time.Sleep(time.Minute)
			}
			return secret
		}
		store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(transform), objectcache.WatchOptions{})
		r.Store = store
		r.run()
		for _, name := range []string{"a", "b", "c"} {
			r.referenced(name)
		}
		r.update("a", "slow")
		r.update("b", "panic")
		r.update("c", "new")
		r.wantValue("beside a slow one and one that panics", "c", "new")
		status, _ := r.Status(namespace, "b")
		if status.LastError == nil {
			t.Error("no error of a transform that panics")
		}
		checkSecrecy(t, "error of a transform", fmt.Sprintf("%v %+v", status.LastError, status))
		r.update("b", "well")
		time.Sleep(2 * time.Minute)
		r.wantValue("later", "a", "slow")
		r.wantValue("later", "b", "well")
		if reader.Load() {
			t.Error("a transform ran on the goroutine that reads the connection")
		}
		r.stop()
	})
}

// leavingTaker ends the goroutine with each bookmark, as t.FailNow in a store of a test does.
type leavingTaker struct {
	*storetest.Slot[*corev1.Secret]

	ends *atomic.Bool
}

func (s leavingTaker) TakeBookmark(string) bool {
	if s.ends.Load() {
		goruntime.Goexit()
	}
	return true
}

// A store that ends the goroutine that gives it a bookmark ends its own reflector at most: the other streams of the
// connection go on.
func TestTakerEndsTheReaderOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true}), stop: func() {}}
		r.client = r.server.Client()
		client, err := kubernetes.NewForConfig(resource.ConfigFor(r.server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		secrets := &listwatch.RESTResource{
			Client: client.CoreV1().RESTClient(), Name: "secrets",
			NewObject: func() runtime.Object { return &corev1.Secret{} }, NewList: func() runtime.Object { return &corev1.SecretList{} },
		}
		gate := reflector.NewGate(reflector.GateOptions{})
		slots, ends := map[string]*storetest.Slot[*corev1.Secret]{}, &atomic.Bool{}
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for _, name := range []string{"a", "b"} {
			r.create(name)
			slots[name] = storetest.NewSlot[*corev1.Secret](types.NamespacedName{Namespace: namespace, Name: name})
			var store reflector.Store = slots[name]
			if name == "a" {
				store = leavingTaker{slots[name], ends}
			}
			running.Go(func() {
				reflector.New(listwatch.FromREST(secrets, namespace, name), store, reflector.Options{Gate: gate}).Run(ctx)
			})
		}
		time.Sleep(3 * time.Minute)
		ends.Store(true)
		time.Sleep(3 * time.Minute)
		r.update("b", "new")
		began := time.Now()
		for string(slots["b"].Load().Object.Data["password"]) != "new" && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the other object had its event after %v, want at once", took)
		}
		ends.Store(false)
		cancel()
		running.Wait()
	})
}

// Bookmarks of many forms, in turn, cost decoding and lose no event.
func TestBookmarksOfManyForms(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{MaxStaleness: 2*time.Minute + time.Second}, func(t *testing.T, r *rig) {
		var marks atomic.Int64
		r.server.Rewrite(apiserver.Rewriter{Event: func(_ context.Context, _ apiserver.Request, e watch.Event) []watch.Event {
			secret, ok := e.Object.(*corev1.Secret)
			if !ok || e.Type != watch.Bookmark || secret.Annotations[metav1.InitialEventsAnnotationKey] != "" {
				return []watch.Event{e}
			}
			secret.Annotations = map[string]string{"a": strings.Repeat("x", int(marks.Add(1)%7))}
			return []watch.Event{e}
		}})
		r.referenced("tls")
		for i := range 15 {
			time.Sleep(91 * time.Second)
			r.update("tls", fmt.Sprint(i))
			if got, err := r.TryGet(namespace, "tls"); err != nil || valueOf(got) != fmt.Sprint(i) {
				t.Errorf("got %q, %v; want %d", valueOf(got), err, i)
			}
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("got %d streams, want 1", got)
		}
	})
}

var _ = errors.Is
