// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgocache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/refwatch/refwatch/manager"
)

// controllerRuntime is controller-runtime's cache. It knows one informer per kind and namespace, so that it lists
// and holds every secret of the namespace, referenced or not: here that is each of them, the best case for it.
type controllerRuntime struct {
	ctx    context.Context
	cache  cache.Cache
	follow func(*corev1.Secret)

	mu   sync.Mutex
	pods map[types.UID]struct{} // with secrets
}

func newControllerRuntime(ctx context.Context, options Options) (Contender, error) {
	log.SetLogger(klog.Background())
	secrets, err := cache.New(options.Config, cache.Options{
		DefaultNamespaces: map[string]cache.Config{options.Namespace: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("making controller-runtime's cache: %w", err)
	}
	go func() { _ = secrets.Start(ctx) }() // ends with the process
	return &controllerRuntime{ctx: ctx, cache: secrets, follow: options.Follow, pods: map[types.UID]struct{}{}}, nil
}

// RegisterPod starts the informer of all secrets, with the first pod.
func (c *controllerRuntime) RegisterPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	manager.VisitPodSecretNames(pod, func(string) { c.pods[pod.UID] = struct{}{} })
	if len(c.pods) != 1 {
		return
	}
	informer, err := c.cache.GetInformer(c.ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		klog.Background().Error(err, "No informer of secrets") // Get says so, too
		return
	}
	if c.follow != nil {
		tell := func(object any) { c.follow(object.(*corev1.Secret)) }
		_, _ = informer.AddEventHandler(clientgocache.ResourceEventHandlerFuncs{ // fails only if it has stopped
			AddFunc:    tell,
			UpdateFunc: func(_, object any) { tell(object) },
		})
	}
}

// UnregisterPod ends the informer with the last pod.
func (c *controllerRuntime) UnregisterPod(pod *corev1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.pods, pod.UID); len(c.pods) == 0 {
		_ = c.cache.RemoveInformer(c.ctx, &corev1.Secret{}) // fails only for a kind it does not know
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
