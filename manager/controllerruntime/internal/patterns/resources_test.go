// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager"
)

// resources are the custom resources of an operator, in the memory of the test. They are ConfigMaps that name Secrets.
type resources struct {
	*fakesource.FakeControllerSource
}

func newResources() resources { return resources{fakesource.NewFakeControllerSource()} }

// field is that of a custom resource that names Secrets, and the name of its index.
const field = "secrets"

// set creates or updates the custom resource of a pod.
func (r resources) set(pod *corev1.Pod) {
	var names []string
	manager.VisitPodSecretNames(pod, func(name string) { names = append(names, name) })
	r.Modify(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Data:       map[string]string{field: strings.Join(names, " ")},
	})
}

// secretsOf returns the keys of the Secrets that a custom resource names.
func secretsOf(resource *corev1.ConfigMap) (keys []types.NamespacedName) {
	for name := range strings.FieldsSeq(resource.Data[field]) {
		keys = append(keys, types.NamespacedName{Namespace: resource.Namespace, Name: name})
	}
	return keys
}

// index returns the values of a custom resource in the index of the Secrets that it names.
func index(object client.Object) []string {
	return strings.Fields(object.(*corev1.ConfigMap).Data[field])
}

// in makes the informer of custom resources read them from memory, and no other.
func (r resources) in(options cache.Options) cache.Options {
	options.NewInformer = func(from toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		switch example.(type) {
		case *corev1.ConfigMap:
			from = toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
				ListWithContextFunc:  func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(o) },
				WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) { return r.Watch(o) },
			}, withoutWatchList{})
		case *metav1.PartialObjectMetadata:
			from = drained(from)
		}
		return toolscache.NewSharedIndexInformer(from, example, resync, indexers)
	}
	return options
}

// drained reads watches to their end. client-go's watch of metadata otherwise keeps a goroutine if it ends while an
// event arrives (watch.Filter), which a bubble does not allow.
func drained(from toolscache.ListerWatcher) toolscache.ListerWatcher {
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: toolscache.ToListerWatcherWithContext(from).ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := toolscache.ToListerWatcherWithContext(from).WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			return drainedWatch{w}, nil
		},
	}, withoutWatchList{})
}

// withoutWatchList makes informers list and watch.
type withoutWatchList struct{}

func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

type drainedWatch struct{ watch.Interface }

func (w drainedWatch) Stop() {
	w.Interface.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
}
