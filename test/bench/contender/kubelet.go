// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	kubeletmanager "k8s.io/kubernetes/pkg/kubelet/util/manager"
)

// resyncInterval is kubelet's syncFrequency, a minute by default
// (kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1). The manager ends a stream after five of them
// without a Get.
const resyncInterval = time.Minute

// kubelet is kubelet's manager with its default strategy, Watch.
type kubelet struct{ secret.Manager }

func newKubelet(_ context.Context, config *rest.Config, _ string) (Contender, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return kubelet{secret.NewWatchingSecretManager(client, resyncInterval)}, nil
}

// Get ignores its context: the manager polls every 10 ms and gives up after a second.
func (k kubelet) Get(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return k.GetSecret(namespace, name)
}

func kubeletRegistrar() (Registrar, error) {
	return kubeletmanager.NewCacheBasedManager(kubeletNothing{}, kubeletSecretNames), nil
}

// kubeletSecretNames does the same as the unexported function of kubelet's secret manager.
func kubeletSecretNames(pod *corev1.Pod) sets.Set[string] {
	names := sets.New[string]()
	podutil.VisitPodSecretNames(pod, func(name string) bool {
		names.Insert(name)
		return true
	})
	return names
}

type kubeletNothing struct{ nothing }

func (kubeletNothing) Get(string, string) (runtime.Object, error) {
	return nil, errors.New("this store is empty")
}
