// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

var keyOfOne = types.NamespacedName{Namespace: namespace, Name: "one"}

// Each representation of a kind is read, with its kind set, as from the stock cache.
func TestRepresentations(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		typed, untyped, metadata := &corev1.Secret{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		kind := corev1.SchemeGroupVersion.WithKind("Secret")
		untyped.SetGroupVersionKind(kind)
		metadata.SetGroupVersionKind(kind)
		for _, object := range []client.Object{typed, untyped, metadata} {
			if err := r.cache.Get(t.Context(), keyOfOne, object); err != nil {
				t.Fatalf("%T: %v", object, err)
			}
			if got := object.GetObjectKind().GroupVersionKind(); got != kind || object.GetName() != "one" || object.GetLabels()["app"] != "web" {
				t.Errorf("%T: got %s %s with labels %v, want Secret one", object, got, object.GetName(), object.GetLabels())
			}
		}
		shared := &metav1.PartialObjectMetadata{TypeMeta: metadata.TypeMeta}
		if err := r.cache.Get(t.Context(), keyOfOne, shared, client.UnsafeDisableDeepCopy); err != nil || shared.Kind != "Secret" {
			t.Errorf("shared metadata: got kind %q and %v, want Secret", shared.Kind, err)
		}
		value, _, _ := unstructured.NestedString(untyped.Object, "data", "value")
		if string(typed.Data["value"]) != "1" || value != "MQ==" {
			t.Errorf("got data %s and %s, want the value", typed.Data, value)
		}
		if got := r.streams(); got != 3 {
			t.Errorf("got %d streams, want one for each representation", got)
		}
	})
}

// Custom resources are served by reference too, without a Go type.
func TestCustomResource(t *testing.T) {
	kind := widgets.Group + "/" + widgets.Version
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind, "kind": "Widget"}}
	inBubble(t, controllerruntime.CacheOptions{For: []client.Object{widget}}, cache.Options{}, func(t *testing.T, r *rig) {
		seen := r.record(widget)
		admin, err := dynamic.NewForConfig(resource.ConfigFor(r.server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		got := widget.DeepCopy()
		if err := r.cache.Get(t.Context(), keyOfOne, got); !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, want NotFound", err)
		}
		one := widget.DeepCopy()
		one.SetName("one")
		resource := admin.Resource(gvrOf(widgets)).Namespace(namespace)
		if _, err := resource.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		seen.want(t, "created", "add one")
		if err := r.cache.Get(t.Context(), keyOfOne, got); err != nil || got.GetKind() != "Widget" {
			t.Errorf("got %v and %v, want the Widget", got, err)
		}
	})
}

// What Get returns is a copy, unless the options say otherwise, as in the stock cache.
func TestDeepCopy(t *testing.T) {
	tests := map[string]struct {
		stock  cache.Options
		get    []client.GetOption
		shared bool
	}{
		"default":           {},
		"option of the Get": {get: []client.GetOption{client.UnsafeDisableDeepCopy}, shared: true},
		"default of all":    {stock: cache.Options{DefaultUnsafeDisableDeepCopy: new(true)}, shared: true},
		"of the kind": {
			stock:  cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {UnsafeDisableDeepCopy: new(true)}}},
			shared: true,
		},
		"the kind says otherwise": {stock: cache.Options{
			DefaultUnsafeDisableDeepCopy: new(true),
			ByObject:                     map[client.Object]cache.ByObject{&corev1.Secret{}: {UnsafeDisableDeepCopy: new(false)}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, test.stock, func(t *testing.T, r *rig) {
				r.create("one", "1")
				first, err := r.get("one", test.get...)
				if err != nil {
					t.Fatal(err)
				}
				first.Data["value"][0] = '2'
				second, err := r.get("one", test.get...)
				if got := string(second.Data["value"]) == "2"; err != nil || got != test.shared {
					t.Errorf("got shared data %v and %v, want %v", got, err, test.shared)
				}
			})
		})
	}
}

// The errors of Get say what is the case.
func TestGetErrors(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		for _, name := range []string{"absent", "no/name", ""} {
			if _, err := r.get(name); !apierrors.IsNotFound(err) {
				t.Errorf("%q: got %v, want NotFound", name, err)
			}
		}
		r.server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		began := time.Now()
		_, err := r.get("forbidden")
		if took := time.Since(began); !apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `"default/forbidden"`) || took >= time.Second {
			t.Errorf("got %v after %v, want Forbidden at once", err, took)
		}
		r.server.Authorize(nil)
		hang := r.hold("hanging", "other")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(errors.New("shutting down")) })
		err = r.cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "other"}, &corev1.Secret{})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, objectcache.ErrNotSynced) || !strings.Contains(err.Error(), "shutting down") {
			t.Errorf("a Get whose context ends: got %v, want its cause", err)
		}
		hang()
		r.stop()
		if _, err := r.get("one"); !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("after the end: got %v, want ErrStopped", err)
		}
	})
}

// An object that the server does not answer for holds a Get up once, for SyncTimeout, and
// no other object. It is there as soon as the server answers.
func TestHangingObject(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("hanging", "2")
		release := r.hold("hanging")
		for i, want := range []time.Duration{5 * time.Second, 0} {
			began := time.Now()
			_, err := r.get("hanging")
			if took := time.Since(began); !errors.Is(err, objectcache.ErrNotSynced) || apierrors.IsNotFound(err) || took != want {
				t.Errorf("Get %d: got %v after %v, want ErrNotSynced after %v", i, err, took, want)
			}
			if i == 0 && !strings.Contains(err.Error(), "CacheOptions.SyncTimeout is 5s") {
				t.Errorf("got %v, want the name of the option", err)
			}
			r.wantValue("one", "1")
		}
		seen := r.record(&corev1.Secret{})
		seen.want(t, "hanging", "add one=1")
		release()
		time.Sleep(time.Minute)
		seen.want(t, "released", "add hanging=2")
		r.wantValue("hanging", "2")
	})
}

// With a negative SyncTimeout a Get waits for as long as its context allows, and an object
// for which a Get waits is not dropped.
func TestWaitingGet(t *testing.T) {
	options := controllerruntime.CacheOptions{SyncTimeout: -1, IdleTimeout: time.Minute}
	inBubble(t, options, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("hanging", "1")
		release := r.hold("hanging")
		time.AfterFunc(time.Hour, release)
		began := time.Now()
		r.wantValue("hanging", "1")
		if took := time.Since(began); took < time.Hour {
			t.Errorf("got the object after %v, want it after the release", took)
		}
	})
}

// List is refused with what to do, or reads from the server.
func TestList(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		err := r.cache.List(t.Context(), &corev1.SecretList{})
		if !errors.Is(err, controllerruntime.ErrListRefused) || !strings.HasSuffix(err.Error(), ", or set CacheOptions.LiveList or Selected") {
			t.Errorf("got %v, want ErrListRefused", err)
		}
		if err := r.cache.List(t.Context(), &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}}); !errors.Is(err, controllerruntime.ErrListRefused) {
			t.Errorf("metadata: got %v, want ErrListRefused", err)
		}
		extract := func(client.Object) []string { return nil }
		if err := r.cache.IndexField(t.Context(), &corev1.Secret{}, "type", extract); !errors.Is(err, controllerruntime.ErrListRefused) {
			t.Errorf("IndexField: got %v, want ErrListRefused", err)
		}
	})
	restricted := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	inBubble(t, controllerruntime.CacheOptions{LiveList: true}, restricted, func(t *testing.T, r *rig) {
		r.create("one", "1")
		secrets := &corev1.SecretList{}
		if err := r.cache.List(t.Context(), secrets, client.InNamespace(namespace)); err != nil || len(secrets.Items) != 1 {
			t.Errorf("got %d Secrets and %v, want one", len(secrets.Items), err)
		}
		if err := r.cache.List(t.Context(), secrets, client.InNamespace("other")); err == nil || !strings.Contains(err.Error(), "unknown namespace") {
			t.Errorf("another namespace: got %v, want an error", err)
		}
	})
}

// hangingMapper does not answer until release is closed.
type hangingMapper struct {
	meta.RESTMapper

	release chan struct{}
	asked   atomic.Int32
}

func (m *hangingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.asked.Add(1)
	<-m.release
	return m.RESTMapper.RESTMapping(kind, versions...)
}

// While the server does not say which resource a kind is, Gets end after SyncTimeout, and share one request.
func TestFirstGetWhileDiscoveryHangs(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		mapper := &hangingMapper{RESTMapper: meta.NewDefaultRESTMapper(nil), release: make(chan struct{})}
		mapper.RESTMapper.(*meta.DefaultRESTMapper).Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(server.Config(), cache.Options{Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, server: server, client: server.Client(), cache: made}
		r.stop = start(t, made)
		r.create("one", "1")
		began := time.Now()
		if _, err := r.get("one"); !apierrors.IsTimeout(err) || time.Since(began) != 5*time.Second || !strings.Contains(err.Error(), "CacheOptions.SyncTimeout") {
			t.Errorf("got %v after %v, want a timeout after SyncTimeout", err, time.Since(began))
		}
		if _, err := made.GetInformer(t.Context(), &corev1.Secret{}); !apierrors.IsTimeout(err) {
			t.Errorf("GetInformer: got %v, want a timeout", err)
		}
		if asked := mapper.asked.Load(); asked != 1 {
			t.Errorf("got %d requests for the resource, want 1", asked)
		}
		close(mapper.release)
		synctest.Wait()
		r.wantValue("one", "1")
		r.stop()
	})
}
