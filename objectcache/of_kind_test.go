// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// podLike returns a Pod with the name and version of what a server sends.
func podLike(object runtime.Object) runtime.Object {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	switch object := object.(type) {
	case metav1.Object:
		pod.Namespace, pod.Name, pod.Annotations = object.GetNamespace(), object.GetName(), object.GetAnnotations()
		pod.ResourceVersion = object.GetResourceVersion()
	case metav1.ListInterface:
		pod.ResourceVersion = object.GetResourceVersion()
	}
	return pod
}

// otherAnswers are what a server sends for events and lists.
var otherAnswers = map[string]struct {
	event func(watch.Event) runtime.Object    // nil: the events are those of the server
	list  func(runtime.Object) runtime.Object // nil: the server serves WatchLists
}{
	"Pods": {event: func(e watch.Event) runtime.Object { return podLike(e.Object) }},
	"a Pod in the bookmark that ends the initial events": {event: func(e watch.Event) runtime.Object {
		if e.Type == watch.Bookmark {
			return podLike(e.Object)
		}
		return nil
	}},
	"a Pod in place of a list": {list: podLike},
	"a list without Pods": {list: func(list runtime.Object) runtime.Object {
		pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
		pods.ResourceVersion = list.(metav1.ListInterface).GetResourceVersion()
		return pods
	}},
	"a Table": {list: func(list runtime.Object) runtime.Object {
		table := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table", "rows": []any{}}}
		table.SetResourceVersion(list.(metav1.ListInterface).GetResourceVersion())
		return table
	}},
	"the object in place of a list": {list: func(list runtime.Object) runtime.Object {
		items, err := meta.ExtractList(list)
		if err != nil || len(items) != 1 {
			return nil
		}
		items[0].GetObjectKind().SetGroupVersionKind(list.GetObjectKind().GroupVersionKind())
		return items[0]
	}},
}

// A store takes an answer of another kind neither for the object nor for its absence: it
// keeps what it has, and reads again. To a store of objects without a Go type, what has
// another group or version is of another kind.
func TestAnswerOfAnotherKind(t *testing.T) {
	testAnswers(t, "Dynamic", "Widget", widgets, func(t *testing.T, s *apiserver.Server) resource.Resource[untyped] {
		return clients.Dynamic(dynamicClient(t, s.Config()), widgets)
	})
	testAnswers(t, "untyped", "Widget", widgets, func(_ *testing.T, s *apiserver.Server) resource.Resource[untyped] {
		return resource.FromConfig[untyped, untypedList](resource.ConfigFor(s.Config()), widgets)
	})
	testAnswers(t, "a type of the program", "Widget", widgets, func(_ *testing.T, s *apiserver.Server) resource.Resource[*Widget] {
		return resource.FromConfig[*Widget, *WidgetList](resource.ConfigFor(s.Config()), widgets)
	})
	testAnswers(t, "typed", "Secret", secretsPath, func(t *testing.T, s *apiserver.Server) resource.Resource[*corev1.Secret] {
		return resource.Secrets(clientOf(t, s))
	})
	testAnswers(t, "typed, without a REST client", "Secret", secretsPath, func(t *testing.T, s *apiserver.Server) resource.Resource[*corev1.Secret] {
		client := clientOf(t, s)
		return clients.Typed(func(namespace string) withoutRESTClient {
			return withoutRESTClient{client.CoreV1().Secrets(namespace)}
		}, secretsPath)
	})
}

func testAnswers[T cache.Object](t *testing.T, name, kind string, resource schema.GroupVersionResource, client func(*testing.T, *apiserver.Server) resource.Resource[T]) {
	for answerName, answer := range otherAnswers {
		t.Run(name+", "+answerName, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true, CustomResources: customResources, DisableWatchList: answer.list != nil})
				l := &life{server, t, dynamicClient(t, server.Config()).Resource(resource).Namespace(namespace), resource, namespace}
				want := l.write(kind, "red")
				store := newStore(t, client(t, server), objectcache.WatchOptions{})
				store.AddReference(namespace, "one", "pod")
				defer runStore(t.Context(), t, store)()
				check := func(when string) {
					t.Helper()
					got, err := store.Get(t.Context(), namespace, "one")
					if err != nil || got.GetUID() != want.GetUID() {
						t.Errorf("%s: got %v, %v, want the %s", when, got, err, kind)
					}
				}
				check("at first")
				var reached atomic.Int64
				rewriter := apiserver.Rewriter{
					Object: func(_ context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
						if request.Verb != "list" || answer.list == nil {
							return nil
						}
						reached.Add(1)
						return answer.list(object)
					},
				}
				if answer.event != nil {
					rewriter.Event = func(_ context.Context, _ apiserver.Request, e watch.Event) []watch.Event {
						if object := answer.event(e); object != nil {
							reached.Add(1)
							return []watch.Event{{Type: e.Type, Object: object}}
						}
						return nil
					}
				}
				server.Rewrite(rewriter)
				server.Compact()
				l.write(kind, "green")
				server.CloseStreams(nil)
				time.Sleep(20 * time.Second)
				check("meanwhile")
				if reached.Load() == 0 {
					t.Error("no answer of another kind was sent")
				}
				server.Rewrite(apiserver.Rewriter{})
				time.Sleep(20 * time.Second)
				check("afterwards")
				if got, err := store.TryGet(namespace, "one"); err != nil || got.GetLabels()["colour"] != "green" {
					t.Errorf("afterwards: got %v, %v, want the newest state", got, err)
				}
			})
		})
	}
}
