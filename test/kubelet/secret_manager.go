// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/kubelet/secret"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
)

var _ secret.Manager = (*SecretManager)(nil)

// SecretManager implements kubelet's secret.Manager.
type SecretManager struct {
	*Manager[*corev1.Secret]
}

// NewSecretManager returns a manager of the Secrets of another one, whatever its strategy. The errors are those of
// [New].
func NewSecretManager(secrets *manager.Manager[*corev1.Secret], options Options) (*SecretManager, error) {
	m, err := New(secrets, corev1.Resource("secret"), options)
	if err != nil {
		return nil, err
	}
	return &SecretManager{m}, nil
}

// NewWatchingSecretManager takes the place of kubelet's secret.NewWatchingSecretManager. It ends a stream when no Get
// has asked for the Secret for five resyncIntervals, as kubelet does. Pass the gate that the manager of ConfigMaps
// has too, and a client of manager.ClientFor. The gate may be nil. The errors are those of [manager.NewSecrets].
func NewWatchingSecretManager(client kubernetes.Interface, resyncInterval time.Duration, gate *objectcache.Gate) (*SecretManager, error) {
	secrets, err := manager.NewSecrets(client, watchOptions(resyncInterval, gate))
	if err != nil {
		return nil, err
	}
	return NewSecretManager(secrets, Options{})
}

// GetSecret implements kubelet's secret.Manager. It is [Manager.GetObject] with the type of a Secret.
func (m *SecretManager) GetSecret(namespace, name string) (*corev1.Secret, error) {
	return m.get(namespace, name)
}
