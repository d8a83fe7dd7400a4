// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/configmap"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

var _ configmap.Manager = (*ConfigMapManager)(nil)

// ConfigMapManager implements kubelet's configmap.Manager.
type ConfigMapManager struct {
	*Manager[*corev1.ConfigMap]
}

// NewConfigMapManager returns a manager of the ConfigMaps of another one, whatever its strategy. The errors are those
// of [New].
func NewConfigMapManager(configMaps *manager.Manager[*corev1.ConfigMap], options Options) (*ConfigMapManager, error) {
	m, err := New(configMaps, corev1.Resource("configmap"), options)
	if err != nil {
		return nil, err
	}
	return &ConfigMapManager{m}, nil
}

// NewWatchingConfigMapManager takes the place of kubelet's configmap.NewWatchingConfigMapManager. It ends a stream when
// no Get has asked for the ConfigMap for five resyncIntervals, as kubelet does. Pass the gate that the manager of
// Secrets has too, and a client of manager.ClientFor. The gate may be nil. The errors are those of
// [manager.NewConfigMaps].
func NewWatchingConfigMapManager(client kubernetes.Interface, resyncInterval time.Duration, gate *objectcache.Gate) (*ConfigMapManager, error) {
	configMaps, err := manager.NewConfigMaps(client, watchOptions(resyncInterval, gate))
	if err != nil {
		return nil, err
	}
	return NewConfigMapManager(configMaps, Options{})
}

// GetConfigMap implements kubelet's configmap.Manager. It is [Manager.GetObject] with the type of a ConfigMap.
func (m *ConfigMapManager) GetConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	return m.get(namespace, name)
}
