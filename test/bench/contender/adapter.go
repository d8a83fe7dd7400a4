// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/refwatch/refwatch/manager/controllerruntime"
)

// adapter is refwatch's cache for controller-runtime, with the client that reads its own writes.
type adapter struct{ client client.Client }

func newAdapter(ctx context.Context, config *rest.Config, namespace string) (Contender, error) {
	log.SetLogger(klog.Background())
	options := cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	secrets, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(config, options)
	if err != nil {
		return nil, fmt.Errorf("making refwatch's cache for controller-runtime: %w", err)
	}
	reads, err := controllerruntime.NewClient(config, client.Options{Cache: &client.CacheOptions{Reader: secrets}})
	if err != nil {
		return nil, fmt.Errorf("making its client: %w", err)
	}
	go func() { _ = secrets.Start(ctx) }() // ends with the process
	return &adapter{reads}, nil
}

// RegisterPod implements [Registrar]. The first Get of an object references it.
func (*adapter) RegisterPod(*corev1.Pod) {}

// UnregisterPod implements [Registrar].
func (*adapter) UnregisterPod(*corev1.Pod) {}

// Get implements [Contender].
func (a *adapter) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := a.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// Delete implements [Deleter].
func (a *adapter) Delete(ctx context.Context, namespace, name string) error {
	return a.client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}
