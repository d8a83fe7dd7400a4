// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A live List of a cache that is restricted to namespaces lists each of them, with its selectors and transform, as the
// stock cache does. The items have their kind.
func TestListOfSeveralNamespaces(t *testing.T) {
	for name, namespaces := range map[string]map[string]cache.Config{
		"two":           {namespace: {LabelSelector: web}, "other": {Transform: relabeled}},
		"one and a few": {cache.AllNamespaces: {Transform: relabeled}, namespace: {LabelSelector: web}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{LiveList: true}, cache.Options{DefaultNamespaces: namespaces}, func(t *testing.T, r *rig) {
				r.create("one", "1")
				r.create("three", "3")
				r.label("three", nil)
				r.createTwo()
				secrets := &corev1.SecretList{}
				if err := r.cache.List(t.Context(), secrets); err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for i := range secrets.Items {
					got[secrets.Items[i].Name] = secrets.Items[i].Kind + secrets.Items[i].Labels["transformed"]
				}
				if want := map[string]string{"one": "Secret", "two": "Secretyes"}; !maps.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if err := r.cache.List(t.Context(), secrets, client.Limit(1)); err != nil || len(secrets.Items) != 1 {
					t.Errorf("with a limit: got %d and %v, want one", len(secrets.Items), err)
				}
				if err := r.cache.List(t.Context(), secrets, client.Continue("more")); err == nil || !strings.Contains(err.Error(), "client.InNamespace") {
					t.Errorf("Continue: got %v, want an error that says what to do", err)
				}
			})
		})
	}
}

// A program that lists in pages gets all objects of one namespace, and else an error, instead of a part of them.
func TestListInPages(t *testing.T) {
	for name, test := range map[string]struct {
		namespaces map[string]cache.Config
		want       int // 0: an error
	}{
		"one namespace":             {map[string]cache.Config{namespace: {}}, 3},
		"all":                       {map[string]cache.Config{cache.AllNamespaces: {}}, 4},
		"two":                       {map[string]cache.Config{namespace: {}, "other": {}}, 0},
		"the last one is continued": {map[string]cache.Config{"another": {}, namespace: {}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{LiveList: true}, cache.Options{DefaultNamespaces: test.namespaces}, func(t *testing.T, r *rig) {
				for _, name := range []string{"a", "b", "c"} {
					r.create(name, "1")
				}
				r.createTwo()
				got, token := 0, ""
				var err error
				for err == nil && (got == 0 || token != "") {
					secrets := &corev1.SecretList{}
					err = r.cache.List(t.Context(), secrets, client.Limit(1), client.Continue(token))
					got, token = got+len(secrets.Items), secrets.Continue
				}
				if test.want == 0 && err == nil || test.want > 0 && (err != nil || got != test.want) {
					t.Errorf("got %d objects and %v, want %d", got, err, test.want)
				}
			})
		})
	}
}

// An object of a live List has nothing of an object of another namespace, also if the server answers with JSON, as for
// custom resources, and the list was not empty before.
func TestListOfSeveralNamespacesMixesNothing(t *testing.T) {
	for _, contentType := range []string{"", "application/json"} {
		onServer(t, func(t *testing.T, server *apiserver.Server) {
			config := server.Config()
			config.ContentType, config.AcceptContentTypes = contentType, contentType
			stock := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, "other": {}}}
			made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{LiveList: true})(config, stock)
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, server: server, client: server.Client(), cache: made}
			r.create("one", "1") // with a label, and listed first
			r.createTwo()        // without
			list := &corev1.SecretList{}
			for range 2 {
				if err := made.List(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				labels := map[string]int{}
				for i := range list.Items {
					labels[list.Items[i].Name] = len(list.Items[i].Labels)
				}
				if want := map[string]int{"one": 1, "two": 0}; !maps.Equal(labels, want) {
					t.Errorf("content type %q: got labels %v, want %v", contentType, labels, want)
				}
			}
		})
	}
}

// A live List whose transform fails is an error that does not quote the object.
func TestListWhoseTransformFails(t *testing.T) {
	stock := cache.Options{DefaultTransform: func(object any) (any, error) {
		return nil, errors.New("of " + string(object.(*corev1.Secret).Data["value"]))
	}}
	inBubble(t, controllerruntime.CacheOptions{LiveList: true}, stock, func(t *testing.T, r *rig) {
		r.create("one", "quoted")
		err := r.cache.List(t.Context(), &corev1.SecretList{})
		if err == nil || strings.Contains(err.Error(), "quoted") {
			t.Errorf("got %v, want an error without the object", err)
		}
	})
}

// relabeled is a transform that can be seen.
func relabeled(object any) (any, error) {
	object.(client.Object).SetLabels(map[string]string{"transformed": "yes"})
	return object, nil
}
