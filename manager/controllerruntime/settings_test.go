// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// ofSecrets returns options for Secrets.
func ofSecrets(byObject cache.ByObject) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Secret{}: byObject}
}

// An option that the cache cannot honour is an error that says what to do.
func TestOptionsThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		options controllerruntime.CacheOptions
		stock   cache.Options
		want    string // empty: no error
	}{
		"zero":                                   {},
		"nil object":                             {options: controllerruntime.CacheOptions{For: []client.Object{nil}}, want: "CacheOptions.For[0] is nil"},
		"nil pointer":                            {options: controllerruntime.CacheOptions{For: []client.Object{(*corev1.Secret)(nil)}}, want: "CacheOptions.For[0] is nil"},
		"only a namespace":                       {stock: cache.Options{ByObject: ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}})}},
		"Selected, no selector":                  {selectedSecrets, cache.Options{}, "select no objects of the kind Secret"},
		"Selected, all of one kind of namespace": {selectedSecrets, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {LabelSelector: web}, cache.AllNamespaces: {}}}, "select no objects"},
		"Selected, all namespaces":               {selectedSecrets, cache.Options{DefaultNamespaces: map[string]cache.Config{cache.AllNamespaces: {}}}, "select no objects"},
		"Selected, not in For":                   {controllerruntime.CacheOptions{Selected: []client.Object{&corev1.ConfigMap{}}}, selections["label"], "ConfigMap is not among the kinds of CacheOptions.For"},
		"Selected, nil":                          {controllerruntime.CacheOptions{Selected: []client.Object{nil}}, selections["label"], "CacheOptions.Selected[0] is nil"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onServer(t, func(t *testing.T, server *apiserver.Server) {
				_, err := controllerruntime.NewCache(test.options)(server.Config(), test.stock)
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("got %v, want an error with %q", err, test.want)
				}
			})
		})
	}
	if _, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(nil, cache.Options{}); err == nil {
		t.Error("nil config: got no error")
	}
	bad := &rest.Config{Host: "https://nowhere.invalid", TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}
	if _, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(bad, cache.Options{}); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("bad config: got %v, want its error", err)
	}
}

// The namespaces to which the stock cache would be restricted restrict Get, too.
func TestNamespaces(t *testing.T) {
	only := map[string]cache.Config{namespace: {}}
	inOther := types.NamespacedName{Namespace: "other", Name: "one"}
	tests := map[string]struct {
		stock   cache.Options
		refused bool
	}{
		"no restriction":       {},
		"of all kinds":         {cache.Options{DefaultNamespaces: only}, true},
		"of the kind":          {cache.Options{ByObject: ofSecrets(cache.ByObject{Namespaces: only})}, true},
		"all others as well":   {cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, cache.AllNamespaces: {}}}, false},
		"not that of the kind": {cache.Options{DefaultNamespaces: only, ByObject: ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{}})}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, test.stock, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.wantValue("one", "1")
				err := r.cache.Get(t.Context(), inOther, &corev1.Secret{})
				if refused := err != nil && strings.Contains(err.Error(), "unknown namespace"); refused != test.refused || !refused && !apierrors.IsNotFound(err) {
					t.Errorf("got %v, want it refused: %v", err, test.refused)
				}
			})
		})
	}
}

// Transforms of the stock cache are applied before an object is stored, those of its
// namespace first.
func TestTransforms(t *testing.T) {
	setTo := func(value string) toolscache.TransformFunc {
		return func(object any) (any, error) {
			if secret, ok := object.(*corev1.Secret); ok {
				secret.Data = map[string][]byte{"value": []byte(value)}
			}
			return object, nil
		}
	}
	tests := map[string]struct {
		stock cache.Options
		want  string
	}{
		"none":         {cache.Options{}, "1"},
		"of all kinds": {cache.Options{DefaultTransform: setTo("default")}, "default"},
		"of the kind":  {cache.Options{DefaultTransform: setTo("default"), ByObject: ofSecrets(cache.ByObject{Transform: setTo("kind")})}, "kind"},
		"of the namespace": {cache.Options{
			DefaultTransform:  setTo("default"),
			DefaultNamespaces: map[string]cache.Config{namespace: {Transform: setTo("namespace")}},
		}, "namespace"},
		"of the namespace, which ByObject names as well": {cache.Options{
			DefaultTransform:  setTo("default"),
			DefaultNamespaces: map[string]cache.Config{namespace: {Transform: setTo("namespace")}},
			ByObject:          ofSecrets(cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}),
		}, "namespace"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, test.stock, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.wantValue("one", test.want)
			})
		})
	}
	fails := cache.Options{DefaultTransform: func(any) (any, error) { return nil, errors.New("it failed") }}
	inBubble(t, controllerruntime.CacheOptions{}, fails, func(t *testing.T, r *rig) {
		r.create("one", "1")
		if _, err := r.get("one"); !errors.Is(err, resource.ErrTransform) {
			t.Errorf("got %v, want ErrTransform", err)
		}
	})
}

// Objects of a cluster-scoped kind are in no namespace: those to which the cache is
// restricted restrict neither Get nor List, and the transform of all kinds is applied.
func TestClusterScopedKind(t *testing.T) {
	stock := cache.Options{
		DefaultNamespaces: map[string]cache.Config{"other": {}},
		DefaultTransform: func(object any) (any, error) {
			object.(client.Object).SetLabels(map[string]string{"transformed": "true"})
			return object, nil
		},
	}
	options := controllerruntime.CacheOptions{For: []client.Object{&corev1.Namespace{}}, LiveList: true}
	inBubble(t, options, stock, func(t *testing.T, r *rig) {
		for _, ignored := range []string{"", namespace} {
			got := &corev1.Namespace{}
			err := r.cache.Get(t.Context(), types.NamespacedName{Namespace: ignored, Name: "other"}, got)
			if err != nil || got.Labels["transformed"] != "true" {
				t.Errorf("Get with namespace %q: got labels %v and %v, want the transformed object", ignored, got.Labels, err)
			}
		}
		if got := r.streams(); got != 1 {
			t.Errorf("got %d streams, want one", got)
		}
		list := &corev1.NamespaceList{}
		if err := r.cache.List(t.Context(), list); err != nil || len(list.Items) == 0 {
			t.Errorf("List: got %d objects and %v, want some", len(list.Items), err)
		}
	})
}

// With a SyncPeriod handlers see each object again, as those of the stock cache do.
func TestSyncPeriod(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{SyncPeriod: new(time.Hour)}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		seen := r.record(&corev1.Secret{})
		r.wantValue("one", "1")
		seen.want(t, "start", "add one=1")
		time.Sleep(144 * time.Minute) // client-go may skip the first one
		seen.wantLast(t, "after two periods", "update one=1 to one=1")
	})
}
