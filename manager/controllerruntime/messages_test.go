// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// foreign matches the options and functions of other packages of the library, which a program with NewCache does not
// use, apart from those of CacheOptions.
var foreign = regexp.MustCompile(`\b(ClusterScoped|With[A-Z]\w*|AcquireOnGet|(Watch|TTL|Direct|Get)Options|resource\.\w+|ConfigFor|FromSource|WatchStore|SetReferences|RegisterPod)\b`)

// Whatever fails, the error of a Get names no option that a program with NewCache does not have. A 404 that is not the
// answer for the object is no NotFound: a reconcile would take the object for absent.
func TestErrorsNameNoForeignOptions(t *testing.T) {
	secret := types.NamespacedName{Namespace: namespace, Name: "one"}
	transform := func(f func(any) (any, error)) cache.Options { return cache.Options{DefaultTransform: f} }
	for name, test := range map[string]struct {
		options controllerruntime.CacheOptions
		stock   cache.Options
		fault   func(r *rig)
		key     types.NamespacedName
		object  client.Object
	}{
		"no namespace":     {key: types.NamespacedName{Name: "one"}},
		"no name":          {key: types.NamespacedName{Namespace: namespace}},
		"an invalid name":  {key: types.NamespacedName{Namespace: namespace, Name: "No"}},
		"absent":           {key: types.NamespacedName{Namespace: namespace, Name: "other"}},
		"transform fails":  {stock: transform(func(any) (any, error) { return nil, errors.New("no") })},
		"transform panics": {stock: transform(func(any) (any, error) { panic("no") })},
		"transform renames": {stock: transform(func(o any) (any, error) {
			o.(client.Object).SetName("other")
			return o, nil
		})},
		"transform sleeps": {stock: transform(func(o any) (any, error) { time.Sleep(time.Minute); return o, nil })},
		"forbidden":        {fault: func(r *rig) { r.server.Authorize(func(apiserver.Request) bool { return false }) }},
		"silent":           {fault: func(r *rig) { r.hold("one") }},
		"away":             {fault: func(r *rig) { r.server.Close() }},
		"stopped":          {fault: func(r *rig) { r.stop() }},
		"not served":       {fault: answersAll(404, "404 page not found")},
		"not served, cluster-scoped": {
			options: controllerruntime.CacheOptions{For: []client.Object{&corev1.Namespace{}}}, object: &corev1.Namespace{},
			key: types.NamespacedName{Name: "other"}, fault: answersAll(404, "404 page not found"),
		},
		"another scope": {
			options: controllerruntime.CacheOptions{For: []client.Object{&corev1.Secret{}}}, key: types.NamespacedName{Name: "one"},
			stock: cache.Options{Mapper: clusterScopedMapper()},
		},
		"a proxy's page": {fault: answersAll(200, "<html>log in</html>")},
		"unauthorized":   {fault: answersAll(401, "no")},
		"broken":         {fault: answersAll(500, "no")},
	} {
		if test.object == nil {
			test.object = &corev1.Secret{}
		}
		if test.key == (types.NamespacedName{}) {
			test.key = secret
		}
		for when, isKnown := range map[string]bool{"first Get of the kind": false, "after another Get": true} {
			t.Run(name+"/"+when, func(t *testing.T) {
				inBubble(t, test.options, test.stock, func(t *testing.T, r *rig) {
					r.create("one", "1")
					if isKnown {
						_ = r.cache.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "known"}, test.object)
					}
					if test.fault != nil {
						test.fault(r)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					err := r.cache.Get(ctx, test.key, test.object)
					if err == nil {
						t.Fatal("got no error")
					}
					if found := foreign.FindString(err.Error()); found != "" {
						t.Errorf("got an error that names %s, which NewCache does not have: %v", found, err)
					}
					if apierrors.IsNotFound(err) && strings.HasPrefix(name, "not served") {
						t.Errorf("got %v, want another error than NotFound", err)
					}
				})
			})
		}
	}
}

// answersAll makes the server answer each request so.
func answersAll(code int, body string) func(*rig) {
	return func(r *rig) {
		r.server.Wrap(func(w http.ResponseWriter, _ *http.Request, _ apiserver.Request, _ http.HandlerFunc) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
}

// clusterScopedMapper takes Secrets for cluster-scoped, as a mapper does that knows another scope of a kind.
func clusterScopedMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeRoot)
	return mapper
}
