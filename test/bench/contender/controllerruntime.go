// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// controllerRuntime is controller-runtime's cache. It has one informer for a kind and namespace, which lists and keeps
// every Secret there, referenced or not. Here all are referenced, its best case.
type controllerRuntime struct {
	ctx   context.Context
	cache cache.Cache
	pods  atomic.Int64
}

func newControllerRuntime(ctx context.Context, config *rest.Config, namespace string) (Contender, error) {
	log.SetLogger(klog.Background())
	secrets, err := cache.New(config, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, fmt.Errorf("making controller-runtime's cache: %w", err)
	}
	go func() { _ = secrets.Start(ctx) }() // ends with the process
	return &controllerRuntime{ctx: ctx, cache: secrets}, nil
}

// RegisterPod starts the informer of all Secrets at the first pod.
func (c *controllerRuntime) RegisterPod(*corev1.Pod) {
	if c.pods.Add(1) > 1 {
		return
	}
	if _, err := c.cache.GetInformer(c.ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		klog.Background().Error(err, "No informer of Secrets") // Get fails, too
	}
}

// UnregisterPod ends the informer at the last pod.
func (c *controllerRuntime) UnregisterPod(*corev1.Pod) {
	if c.pods.Add(-1) == 0 {
		_ = c.cache.RemoveInformer(c.ctx, &corev1.Secret{}) // fails only for an unregistered kind
	}
}

// Get returns a copy, which is the cache's default.
func (c *controllerRuntime) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := c.cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret); err != nil {
		return nil, err
	}
	return secret, nil
}
