// SPDX-License-Identifier: Apache-2.0

package kubelet_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"
	"k8s.io/utils/clock"

	"github.com/refwatch/refwatch/test/kubelet"
)

// kind is Secrets or ConfigMaps.
type kind struct {
	name, resource string // as kubelet's errors and the server name it
	envFrom        func(corev1.LocalObjectReference) corev1.EnvFromSource
	volume         func(name string, optional bool) corev1.VolumeSource
	write          func(ctx context.Context, client kubernetes.Interface, name, value string, immutable bool) error
	remove         func(ctx context.Context, client kubernetes.Interface, name string) error
	value          func(runtime.Object) string

	newOurs      func(kubernetes.Interface) (runner, error)
	visitKubelet func(*corev1.Pod, podutil.Visitor) bool
	list         func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error)
	watch        func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (watch.Interface, error)
	newObject    func() runtime.Object
	isImmutable  func(runtime.Object) bool
}

type runner interface {
	kubeletmanager.Manager
	Run(ctx context.Context) error
}

// startOurs starts the manager that takes the place of kubelet's.
func startOurs(t *testing.T, k kind, client kubernetes.Interface) (kubeletmanager.Manager, func()) {
	m, err := k.newOurs(client)
	if err != nil {
		t.Fatal(err)
	}
	return m, run(t, m)
}

// run runs a manager until the returned function is called, which waits for its end.
func run(t *testing.T, m runner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

// startKubelet starts kubelet's manager.
func startKubelet(t *testing.T, k kind, client kubernetes.Interface) (kubeletmanager.Manager, func()) {
	return newKubelet(t.Context(), k, client)
}

// newKubelet starts kubelet's manager. Kubelet's own constructors start goroutines that never end, so this one puts the
// same parts together with a stop channel.
func newKubelet(ctx context.Context, k kind, client kubernetes.Interface) (m kubeletmanager.Manager, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	store := kubeletmanager.NewObjectCache(
		func(namespace string, options metav1.ListOptions) (runtime.Object, error) {
			return k.list(ctx, client, namespace, options)
		},
		func(namespace string, options metav1.ListOptions) (watch.Interface, error) {
			return k.watch(ctx, client, namespace, options)
		},
		k.newObject, k.isImmutable,
		func(lw *cache.ListWatch) cache.ListerWatcher {
			return cache.ToListWatcherWithWatchListSemantics(lw, client)
		},
		corev1.Resource(k.name), clock.RealClock{}, 5*resyncInterval, ctx.Done())
	names := func(pod *corev1.Pod) sets.Set[string] {
		found := sets.New[string]()
		k.visitKubelet(pod, func(name string) bool { found.Insert(name); return true })
		return found
	}
	return kubeletmanager.NewCacheBasedManager(store, names), cancel
}

var fileMode int32 = 0o600

var secrets = kind{
	name: "secret", resource: "secrets",
	envFrom: func(ref corev1.LocalObjectReference) corev1.EnvFromSource {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}}
	},
	volume: func(name string, optional bool) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Optional: &optional, DefaultMode: &fileMode}}
	},
	write: func(ctx context.Context, client kubernetes.Interface, name, value string, immutable bool) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Immutable: &immutable, Data: map[string][]byte{"key": []byte(value)}}
		_, err := client.CoreV1().Secrets(namespace).Update(ctx, secret, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{})
		}
		return err
	},
	remove: func(ctx context.Context, client kubernetes.Interface, name string) error {
		return client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	},
	value: func(object runtime.Object) string { return string(object.(*corev1.Secret).Data["key"]) },
	newOurs: func(client kubernetes.Interface) (runner, error) {
		return kubelet.NewWatchingSecretManager(client, resyncInterval, nil)
	},
	visitKubelet: podutil.VisitPodSecretNames,
	list: func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().Secrets(namespace).List(ctx, options)
	},
	watch: func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (watch.Interface, error) {
		return client.CoreV1().Secrets(namespace).Watch(ctx, options)
	},
	newObject: func() runtime.Object { return &corev1.Secret{} },
	isImmutable: func(object runtime.Object) bool {
		secret := object.(*corev1.Secret)
		return secret.Immutable != nil && *secret.Immutable
	},
}

var configMaps = kind{
	name: "configmap", resource: "configmaps",
	envFrom: func(ref corev1.LocalObjectReference) corev1.EnvFromSource {
		return corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref}}
	},
	volume: func(name string, optional bool) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional, DefaultMode: &fileMode,
		}}
	},
	write: func(ctx context.Context, client kubernetes.Interface, name, value string, immutable bool) error {
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Immutable: &immutable, Data: map[string]string{"key": value}}
		_, err := client.CoreV1().ConfigMaps(namespace).Update(ctx, configMap, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, configMap, metav1.CreateOptions{})
		}
		return err
	},
	remove: func(ctx context.Context, client kubernetes.Interface, name string) error {
		return client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	},
	value: func(object runtime.Object) string { return object.(*corev1.ConfigMap).Data["key"] },
	newOurs: func(client kubernetes.Interface) (runner, error) {
		return kubelet.NewWatchingConfigMapManager(client, resyncInterval, nil)
	},
	visitKubelet: podutil.VisitPodConfigmapNames,
	list: func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoreV1().ConfigMaps(namespace).List(ctx, options)
	},
	watch: func(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) (watch.Interface, error) {
		return client.CoreV1().ConfigMaps(namespace).Watch(ctx, options)
	},
	newObject: func() runtime.Object { return &corev1.ConfigMap{} },
	isImmutable: func(object runtime.Object) bool {
		configMap := object.(*corev1.ConfigMap)
		return configMap.Immutable != nil && *configMap.Immutable
	},
}
