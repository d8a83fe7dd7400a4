// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// A bookmark says that an object has not changed up to its version. A Get that demands the version has it from memory.
func TestGetNotOlderThanABookmark(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		for range 3 { // the first one is decoded
			version := r.create("other").ResourceVersion
			time.Sleep(2 * time.Minute) // bookmarks come once a minute
			before, began := r.opens("tls"), time.Now()
			if _, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: version}); err != nil || time.Since(began) > 0 || r.opens("tls") != before {
				t.Errorf("got %v after %v, and %d streams opened; want the object at once", err, time.Since(began), r.opens("tls")-before)
			}
			if err := r.client.CoreV1().Secrets(namespace).Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// watched is a source whose events come from the test.
type watched struct{ *watch.FakeWatcher }

func (watched) IsWatchListSemanticsUnSupported() bool { return true }

func (watched) List(context.Context, string, metav1.ListOptions) (runtime.Object, error) {
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []corev1.Secret{*secretAt("5")}}, nil
}

func (w watched) Watch(context.Context, string, metav1.ListOptions) (watch.Interface, error) {
	return w.FakeWatcher, nil
}

func (watched) Get(context.Context, string, string) (*corev1.Secret, error) {
	return secretAt("5"), nil
}

func secretAt(version string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", UID: "u", ResourceVersion: version}}
}

// An event that is older than a bookmark before it is late.
func TestEventOlderThanABookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watched{watch.NewFake()}
		r := rigOf(t, resource.FromSource(source, corev1.SchemeGroupVersion.WithResource("secrets")), objectcache.WatchOptions{})
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		source.Action(watch.Bookmark, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "30"}})
		source.Modify(secretAt("20"))
		synctest.Wait()
		if got := r.mustGet("tls").ResourceVersion; got != "5" {
			t.Errorf("after a late event: got version %s, want 5", got)
		}
		source.Modify(secretAt("31"))
		synctest.Wait()
		if got := r.mustGet("tls").ResourceVersion; got != "31" {
			t.Errorf("after an event: got version %s, want 31", got)
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

var _ = errors.Is
