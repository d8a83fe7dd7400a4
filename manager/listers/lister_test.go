// SPDX-License-Identifier: Apache-2.0

package listers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/listers"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

var (
	_ corev1listers.SecretLister     = (*listers.SecretLister)(nil)
	_ corev1listers.ConfigMapLister  = (*listers.ConfigMapLister)(nil)
	_ listers.Source[*corev1.Secret] = (*manager.Manager[*corev1.Secret])(nil)
	_ listers.Source[*corev1.Secret] = objectcache.Store[*corev1.Secret](nil)
)

// List returns the referenced objects that exist and match, of one namespace or of all.
func TestList(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		r.create("a", "app=web,tier=front")
		r.create("b", "app=db")
		r.create("unreferenced", "app=web")
		r.create("other/a", "app=web")
		r.want("nothing referenced", r.lister.List, "", "")
		r.reference("a", "b", "other/a", "absent")
		tests := map[string]struct{ namespace, selector, want string }{
			"all":                    {"", "", "default/a default/b other/a"},
			"all with a label":       {"", "app=web", "default/a other/a"},
			"a namespace":            {"default", "", "default/a default/b"},
			"a namespace and labels": {"default", "app=web,tier in (front,back)", "default/a"},
			"no match":               {"other", "app=db", ""},
			"no such namespace":      {"none", "", ""},
		}
		for name, test := range tests {
			if test.namespace == "" {
				r.want(name, r.lister.List, test.selector, test.want)
			}
			r.want(name+", lister of the namespace", r.lister.Secrets(test.namespace).List, test.selector, test.want)
		}
		if got, err := r.lister.List(labels.Nothing()); len(got) != 0 || err != nil {
			t.Errorf("labels.Nothing: got %v, %v, want nothing", got, err)
		}
		r.remove("a")
		r.want("after a deletion", r.lister.List, "app=web", "other/a")
		r.secrets.DeleteReference("other", "a", "pod")
		r.want("after the last reference", r.lister.List, "app=web", "")
	})
}

// List returns what is in memory. It neither waits nor opens a stream.
func TestListDoesNotWait(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, listers.Options{}, func(r *rig) {
		r.create("idle", "")
		r.create("slow", "")
		r.reference("idle")
		time.Sleep(3 * time.Minute)
		r.want("idle", r.lister.List, "", "")
		if got := r.streams(); got != 0 {
			t.Errorf("got %d streams after List, want none", got)
		}
		release := r.holdBack()
		r.reference("slow")
		began := time.Now()
		r.want("not synced", r.lister.List, "", "")
		if took := time.Since(began); took != 0 {
			t.Errorf("List took %v, want none", took)
		}
		release()
		synctest.Wait()
		r.want("synced", r.lister.List, "", "default/slow")
	})
}

func TestListOfNilSelector(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		for name, list := range map[string]func(labels.Selector) ([]*corev1.Secret, error){
			"all": r.lister.List, "a namespace": r.lister.Secrets(namespace).List,
		} {
			if got, err := list(nil); got != nil || err == nil || !strings.Contains(err.Error(), "pass labels.Everything()") {
				t.Errorf("%s: got %v, %v, want an error", name, got, err)
			}
		}
	})
}

func TestGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		r.create("tls", "")
		r.create("unreferenced", "")
		r.reference("tls", "absent")
		got, err := r.get("tls")
		if err != nil || got.Name != "tls" {
			t.Errorf("tls: got %v, %v, want the object", got, err)
		}
		if again, _ := r.get("tls"); again != got {
			t.Error("got another object at the second Get, want the shared one")
		}
		if got, err := r.get("absent"); got != nil || !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, %v, want nil, NotFound", got, err)
		}
		if got, err := r.get("unreferenced"); got != nil || !errors.Is(err, objectcache.ErrNotRegistered) || apierrors.IsNotFound(err) {
			t.Errorf("not referenced: got %v, %v, want nil, ErrNotRegistered", got, err)
		}
		for _, name := range []string{"Upper", ""} {
			if got, err := r.get(name); got != nil || !errors.Is(err, objectcache.ErrInvalidName) || !apierrors.IsNotFound(err) {
				t.Errorf("invalid name %q: got %v, %v, want nil, NotFound and ErrInvalidName", name, got, err)
			}
		}
		r.stop()
		r.stop = func() {}
		if got, err := r.get("absent"); got != nil || !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("after the end: got %v, %v, want nil, ErrStopped", got, err)
		}
	})
}

// Get waits for the sync, and returns the object as soon as it is there.
func TestGetWaits(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		r.create("tls", "")
		release := r.holdBack()
		r.reference("tls")
		began := time.Now()
		time.AfterFunc(900*time.Millisecond, release)
		if got, err := r.get("tls"); err != nil || got.Name != "tls" {
			t.Errorf("got %v, %v, want the object", got, err)
		}
		if took := time.Since(began); took != 900*time.Millisecond {
			t.Errorf("Get took %v, want 900ms", took)
		}
	})
}

func TestTimeout(t *testing.T) {
	for name, test := range map[string]struct{ timeout, want time.Duration }{
		"default": {0, time.Second},
		"3s":      {3 * time.Second, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, listers.Options{Timeout: test.timeout}, func(r *rig) {
				release := r.holdBack()
				r.reference("tls")
				began := time.Now()
				got, err := r.get("tls")
				if got != nil || !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, context.DeadlineExceeded) || apierrors.IsNotFound(err) {
					t.Errorf("got %v, %v, want nil, ErrNotSynced and DeadlineExceeded", got, err)
				}
				if took := time.Since(began); took != test.want {
					t.Errorf("Get took %v, want %v", took, test.want)
				}
				release()
			})
		})
	}
}

// With a negative Timeout, Get waits until the object is synced.
func TestNoTimeout(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{Timeout: -1}, func(r *rig) {
		release := r.holdBack()
		r.reference("tls")
		time.AfterFunc(time.Hour, release)
		began := time.Now()
		if _, err := r.get("tls"); !apierrors.IsNotFound(err) || time.Since(began) < time.Hour {
			t.Errorf("got %v after %v, want NotFound after an hour", err, time.Since(began))
		}
	})
}

func TestGetHasTheCause(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		refusal := apierrors.NewForbidden(corev1.Resource("secrets"), "tls", errors.New("no"))
		r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return &refusal.ErrStatus })
		r.reference("tls")
		if got, err := r.get("tls"); got != nil || !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsForbidden(err) {
			t.Errorf("got %v, %v, want nil, ErrNotSynced and Forbidden", got, err)
		}
		r.server.Intercept(nil)
	})
}

// A Get from memory allocates its context and nothing else.
func TestGetAllocates(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		r.create("tls", "")
		r.reference("tls")
		lister := r.lister.Secrets(namespace)
		if got := testing.AllocsPerRun(100, func() { _, _ = lister.Get("tls") }); got > 4 {
			t.Errorf("Get: got %v allocations, want those of its context", got)
		}
	})
}

func TestConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := apiserver.New(t, apiserver.Options{InMemory: true}).Client()
		store, err := objectcache.NewWatchStore(resource.ConfigMaps(client), objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lister, err := listers.ConfigMaps(store, listers.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer run(t, store)()
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		store.AddReference(namespace, "settings", "pod")
		if got, err := lister.ConfigMaps(namespace).Get("settings"); err != nil || got.Name != "settings" {
			t.Errorf("Get: got %v, %v, want the object", got, err)
		}
		if got, err := lister.List(labels.Everything()); err != nil || len(got) != 1 || got[0].Name != "settings" {
			t.Errorf("List: got %v, %v, want the object", got, err)
		}
		if _, err := lister.ConfigMaps(namespace).Get("Upper"); err == nil || !strings.HasPrefix(err.Error(), `configmaps "default/Upper" not found`) {
			t.Errorf("Get of an invalid name: got %v, want NotFound of a ConfigMap", err)
		}
	})
}

func TestConstructorErrors(t *testing.T) {
	var none *objectcache.WatchStore[*corev1.Secret]
	var noConfigMaps *objectcache.WatchStore[*corev1.ConfigMap]
	tests := map[string]struct {
		make func() (any, error)
		want string
	}{
		"nil source":                {func() (any, error) { return listers.Secrets(nil, listers.Options{}) }, "lister of secrets: the source is nil"},
		"nil pointer":               {func() (any, error) { return listers.Secrets(none, listers.Options{}) }, "the source is nil"},
		"nil pointer of ConfigMaps": {func() (any, error) { return listers.ConfigMaps(noConfigMaps, listers.Options{}) }, "lister of configmaps: the source is nil"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := test.make(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// With AcquireOnGet a Get of an object that nobody has registered is that of any other object: it returns the object,
// or NotFound, which is what code that takes a lister knows.
func TestAcquireOnGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Minute}, listers.Options{}, func(r *rig) {
		r.create(namespace+"/tls", "")
		if secret, err := r.lister.Secrets(namespace).Get("tls"); err != nil || secret.Name != "tls" {
			t.Errorf("got %v, %v, want the Secret", secret, err)
		}
		if _, err := r.lister.Secrets(namespace).Get("none"); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want NotFound", err)
		}
	})
}

func TestNotRegisteredNamesAcquireOnGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, listers.Options{}, func(r *rig) {
		_, err := r.lister.Secrets(namespace).Get("tls")
		if !errors.Is(err, objectcache.ErrNotRegistered) || !strings.Contains(err.Error(), "AcquireOnGet") {
			t.Errorf("got %v, want ErrNotRegistered with what to do", err)
		}
	})
}
