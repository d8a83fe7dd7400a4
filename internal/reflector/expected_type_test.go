// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// service is an object that is no Secret.
func service(version string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "web", ResourceVersion: version},
		Spec:       corev1.ServiceSpec{ExternalName: canary},
	}
}

// untyped returns an object without a Go type.
func untyped(kind, name, version string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("example.org/v1")
	object.SetKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(name)
	object.SetResourceVersion(version)
	return object
}

// With ExpectedType no object of another type reaches the store. A watch that delivered
// a Service put it into a store of Secrets.
func TestExpectedType(t *testing.T) {
	end := func(object *unstructured.Unstructured) watch.Event {
		object.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		return event(watch.Bookmark, object)
	}
	service6 := service("6")
	widget, gadget := untyped("Widget", "a", "5"), untyped("Gadget", "b", "6")
	tests := map[string]struct {
		expected runtime.Object
		source   listwatch.Source
		want     []string // what the store holds
		refused  string   // a part of the error; none is expected if it is empty
	}{
		"an initial event": {
			&corev1.Secret{}, watching(opens(event(watch.Added, service6), bookmark("7", true))), nil, "a *v1.Service where a *v1.Secret belongs",
		},
		"the bookmark that ends the initial events": {
			&corev1.Secret{}, watching(opens(end(untyped("Widget", "", "7")))), nil, "a *unstructured.Unstructured where a *v1.Secret belongs",
		},
		"an event": {
			&corev1.Secret{}, watching(opens(append(state(secret("5"), "7"), event(watch.Modified, service("8")))...)),
			[]string{"shop/tls"}, "a *v1.Service where a *v1.Secret belongs",
		},
		"a deletion": {
			&corev1.Secret{}, watching(opens(append(state(secret("5"), "7"), event(watch.Deleted, service("8")))...)),
			[]string{"shop/tls"}, "a *v1.Service where a *v1.Secret belongs",
		},
		"a list": {
			&corev1.Secret{}, listing(&fakeSource{
				onList: lists(func() (runtime.Object, error) {
					return &corev1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []corev1.Service{*service6}}, nil
				}),
				onWatch: streams(opens()),
			}), nil, "a *v1.Service where a *v1.Secret belongs",
		},
		"the expected type": {&corev1.Secret{}, watching(opens(state(secret("5"), "7")...)), []string{"shop/tls"}, ""},
		"any type":          {nil, watching(opens(event(watch.Added, service6), bookmark("7", true))), []string{"shop/web"}, ""},
		"another kind without a Go type": {
			untyped("Widget", "", ""), watching(opens(event(watch.Added, widget), end(untyped("Widget", "", "7")), event(watch.Added, gadget))),
			[]string{"shop/a"}, `an object of another kind where one of "example.org/v1, Kind=Widget" belongs`,
		},
		"any kind without a Go type": {
			&unstructured.Unstructured{}, watching(opens(event(watch.Added, widget), event(watch.Added, gadget), end(untyped("Widget", "", "7")))),
			[]string{"shop/a", "shop/b"}, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				store := newStore()
				r := startWith(t, test.source, store, reflector.Options{ExpectedType: test.expected})
				synctest.Wait()
				got, err := store.ListKeys(), r.Status().LastError
				if slices.Sort(got); !slices.Equal(got, test.want) {
					t.Errorf("store: got %v, want %v", got, test.want)
				}
				if test.refused == "" {
					if err != nil {
						t.Errorf("error: got %v, want none", err)
					}
					return
				}
				if !errors.Is(err, cache.ErrMalformed) || !strings.Contains(err.Error(), test.refused) {
					t.Errorf("error: got %v, want ErrMalformed and %q", err, test.refused)
				}
				if err != nil {
					checkSecrecy(t, "error", err.Error())
				}
				before := len(test.source.(interface{ fake() *fakeSource }).fake().seen())
				after(time.Minute)
				if now := len(test.source.(interface{ fake() *fakeSource }).fake().seen()); now == before {
					t.Error("requests: got none, want that another stream follows")
				}
			})
		})
	}
}
