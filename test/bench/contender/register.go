// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"
	"k8s.io/utils/clock"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

// Registrar is the part of a contender that pods are registered with.
type Registrar interface {
	RegisterPod(pod *corev1.Pod)
	UnregisterPod(pod *corev1.Pod)
}

// OverNothing returns a contender's manager over a store that does nothing, so that only the manager counts; nil if
// it has no such parts.
func OverNothing(name string) (Registrar, error) {
	switch name {
	case "refwatch":
		return manager.New[*corev1.Secret](nothing{}, manager.VisitPodSecretNames)
	case "kubelet":
		return kubeletmanager.NewCacheBasedManager(kubeletNothing{}, kubeletSecretNames), nil
	}
	return nil, nil
}

// OverIdleStore returns a contender's manager over its own store, which counts the references and starts no
// streams, because it has not begun or is over; nil if it has no such parts.
func OverIdleStore(name string) (Registrar, error) {
	switch name {
	case "refwatch":
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://nowhere.invalid"})
		if err != nil {
			return nil, err
		}
		return manager.NewSecrets(client, objectcache.WatchOptions{})
	case "kubelet":
		return kubeletmanager.NewCacheBasedManager(stoppedKubeletStore(), kubeletSecretNames), nil
	}
	return nil, nil
}

type nothing struct{ objectcache.Store[*corev1.Secret] }

func (nothing) AddReference(string, string, types.UID)    {}
func (nothing) DeleteReference(string, string, types.UID) {}
func (nothing) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errIdle
}

type kubeletNothing struct{ nothing }

func (kubeletNothing) Get(string, string) (apiruntime.Object, error) { return nil, errIdle }

// errIdle is what nobody gets, for nobody asks.
var errIdle = errors.New("this store is empty")

// kubeletSecretNames does what kubelet's secret manager does, which does not export it.
func kubeletSecretNames(pod *corev1.Pod) sets.Set[string] {
	names := sets.New[string]()
	podutil.VisitPodSecretNames(pod, func(name string) bool {
		names.Insert(name)
		return true
	})
	return names
}

// stoppedKubeletStore returns kubelet's watch store after its stop: it still counts references.
func stoppedKubeletStore() kubeletmanager.Store {
	before := runtime.NumGoroutine()
	stop := make(chan struct{})
	close(stop)
	store := kubeletmanager.NewObjectCache(
		func(string, metav1.ListOptions) (apiruntime.Object, error) { return nil, errIdle },
		func(string, metav1.ListOptions) (watch.Interface, error) { return nil, errIdle },
		func() apiruntime.Object { return &corev1.Secret{} },
		func(apiruntime.Object) bool { return false },
		func(lw *cache.ListWatch) cache.ListerWatcher { return lw },
		schema.GroupResource{Resource: "secrets"}, clock.RealClock{}, 0, stop)
	// Its two goroutines end when the stop has arrived, and nothing else tells.
	for runtime.NumGoroutine() > before {
		<-time.After(time.Millisecond)
	}
	return store
}
