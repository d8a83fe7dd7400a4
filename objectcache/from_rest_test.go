// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// What is wrong with a resource is an error at construction, if it can be known without a
// request, and says what to do.
func TestAnyKindErrors(t *testing.T) {
	config := &rest.Config{Host: "https://nowhere.invalid"}
	core := restClient(t, config, corev1.SchemeGroupVersion)
	var none *rest.RESTClient
	unversioned := restClient(t, config, schema.GroupVersion{})
	noFile := &rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAFile: "/does/not/exist"}}
	fromFuncs := func(object func() cache.Object, list func() runtime.Object) error {
		return newError(resource.TypedFunc(core, secretsPath, object, list))
	}
	newSecret := func() cache.Object { return &corev1.Secret{} }
	newPod := func() cache.Object { return &corev1.Pod{} }
	newList := func() runtime.Object { return &corev1.SecretList{} }
	tests := map[string]struct {
		err  error
		want string
	}{
		"no function":              {fromFuncs(nil, newList), "its functions return no objects and lists"},
		"no objects":               {fromFuncs(func() cache.Object { return nil }, newList), "its functions return no objects and lists"},
		"no lists":                 {fromFuncs(newSecret, func() runtime.Object { return (*corev1.SecretList)(nil) }), "its functions return no objects and lists"},
		"another object":           {fromFuncs(newPod, newList), `its objects are those of the resource "pods" of "v1"`},
		"no config":                {newError(resource.FromConfig[*Widget, *WidgetList](nil, widgets)), `"widgets.example.com": the config is nil`},
		"bad config":               {newError(resource.FromConfig[*Widget, *WidgetList](noFile, widgets)), "/does/not/exist"},
		"no REST client":           {newError(resource.Typed[*Widget, *WidgetList](nil, widgets)), "the client is nil: make one from"},
		"nil REST client":          {newError(resource.Typed[*Widget, *WidgetList](none, widgets)), "the client is nil: make one from"},
		"another group":            {newError(resource.Typed[*Widget, *WidgetList](core, widgets)), `its client is one of "v1": name that group and version, or pass a client of "example.com/v1"`},
		"another type":             {newError(resource.FromConfig[*corev1.Secret, *corev1.SecretList](config, widgets)), `its objects are those of the resource "secrets" of "v1"`},
		"another version":          {newError(resource.FromConfig[*rbacv1.Role, *rbacv1.RoleList](config, rbacv1.Resource("roles").WithVersion("v1beta1"))), `name that, or use the type of the resource "roles" of "rbac.authorization.k8s.io/v1beta1"`},
		"interface":                {newError(resource.FromConfig[cache.Object, *WidgetList](config, widgets)), "must be pointers to structs"},
		"no version":               {newError(resource.FromConfig[*Widget, *WidgetList](config, schema.GroupVersionResource{Group: "example.com", Resource: "widgets"})), "it has no version"},
		"kind":                     {newError(resource.FromConfig[*Widget, *WidgetList](config, widgets.GroupVersion().WithResource("Widget"))), "plural and in lower case"},
		"no version of the client": {newError(resource.Typed[*Widget, *WidgetList](unversioned, widgets)), "its REST client has no group and version"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", test.err, test.want)
			}
		})
	}
}

// FromConfig leaves the config as it is, and its client has no rate limiter. A limiter of a
// REST client is noticed.
func TestFromConfigHasNoRateLimit(t *testing.T) {
	onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
		config := server.Config()
		config.QPS, config.Burst, config.Timeout = 0.001, 1, time.Minute
		limited := rest.CopyConfig(config)
		limited.GroupVersion, limited.APIPath = &schema.GroupVersion{Group: "example.com", Version: "v1"}, "/apis"
		limited.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		client, err := rest.RESTClientFor(limited)
		if err != nil {
			t.Fatal(err)
		}
		for want, kind := range map[bool]resource.Resource[*Widget]{
			false: resource.FromConfig[*Widget, *WidgetList](config, widgets),
			true:  resource.Typed[*Widget, *WidgetList](client, widgets),
		} {
			store := newStore(t, kind, objectcache.WatchOptions{})
			stop := runStore(t.Context(), t, store)
			var last error
			for _, name := range []string{"a", "b", "c"} {
				store.AddReference(namespace, name, "owner")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_, last = store.Get(ctx, namespace, name)
				cancel()
			}
			if errors.Is(last, resource.ErrClientLimited) != want {
				t.Errorf("got %v, want ErrClientLimited: %v", last, want)
			}
			stop()
		}
		if config.QPS != 0.001 || config.Timeout != time.Minute || config.GroupVersion != nil || config.APIPath != "" || config.UserAgent != "" {
			t.Errorf("config: got %v, want it as it was", config)
		}
	})
}
