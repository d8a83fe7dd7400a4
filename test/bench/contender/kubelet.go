// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/secret"
)

// resyncInterval is kubelet's: its syncFrequency, a minute by default
// (kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1). Five of them without a Get end a stream.
const resyncInterval = time.Minute

// kubelet is kubelet's own manager of the default strategy, Watch.
type kubelet struct{ secret.Manager }

func newKubelet(_ context.Context, options Options) (Contender, error) {
	client, err := newClient(options.Config)
	if err != nil {
		return nil, err
	}
	return kubelet{secret.NewWatchingSecretManager(client, resyncInterval)}, nil
}

// Get takes no context: the manager asks itself every 10 ms whether it has synced, and gives up after a second.
func (k kubelet) Get(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	return k.GetSecret(namespace, name)
}
