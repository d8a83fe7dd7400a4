// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// direct keeps nothing: each Get asks the server.
type direct struct{ client kubernetes.Interface }

func newDirect(_ context.Context, config *rest.Config, _ string) (Contender, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return direct{client}, nil
}

// RegisterPod implements [Registrar].
func (direct) RegisterPod(*corev1.Pod) {}

// UnregisterPod implements [Registrar].
func (direct) UnregisterPod(*corev1.Pod) {}

// Get implements [Contender].
func (d direct) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return d.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}
