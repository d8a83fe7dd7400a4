// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/manager"
)

// informerPerSecret runs a SharedInformer for each secret, as an operator without the right to list all would, and has an
// event handler on each, which is what informers are for.
type informerPerSecret struct {
	ctx    context.Context
	client kubernetes.Interface
	follow func(*corev1.Secret)

	mu    sync.RWMutex
	items map[types.NamespacedName]*informerItem
}

type informerItem struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	pods     map[types.UID]struct{}
}

func newInformer(ctx context.Context, options Options) (Contender, error) {
	client, err := newClient(options.Config)
	if err != nil {
		return nil, err
	}
	return &informerPerSecret{
		ctx: ctx, client: client, follow: options.Follow, items: map[types.NamespacedName]*informerItem{},
	}, nil
}

// RegisterPod implements [Contender].
func (i *informerPerSecret) RegisterPod(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	manager.VisitPodSecretNames(pod, func(name string) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		item, ok := i.items[key]
		if !ok {
			item = i.start(key)
			i.items[key] = item
		}
		item.pods[pod.UID] = struct{}{}
	})
}

func (i *informerPerSecret) start(key types.NamespacedName) *informerItem {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, key.Name).String()
	informer := informers.NewFilteredSecretInformer(i.client, key.Namespace, 0, cache.Indexers{},
		func(options *metav1.ListOptions) { options.FieldSelector = selector })
	tell := func(object any) {
		if i.follow != nil {
			i.follow(object.(*corev1.Secret))
		}
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only if it has stopped
		AddFunc:    tell,
		UpdateFunc: func(_, object any) { tell(object) },
	})
	ctx, stop := context.WithCancel(i.ctx)
	go informer.RunWithContext(ctx)
	return &informerItem{informer, stop, map[types.UID]struct{}{}}
}

// UnregisterPod implements [Contender].
func (i *informerPerSecret) UnregisterPod(pod *corev1.Pod) {
	i.mu.Lock()
	defer i.mu.Unlock()
	manager.VisitPodSecretNames(pod, func(name string) {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		if item, ok := i.items[key]; ok {
			if delete(item.pods, pod.UID); len(item.pods) == 0 {
				item.stop()
				delete(i.items, key)
			}
		}
	})
}

// Get waits for the sync by the informer's channel, which polls nothing, unlike WaitForCacheSync.
func (i *informerPerSecret) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	i.mu.RLock()
	item, ok := i.items[types.NamespacedName{Namespace: namespace, Name: name}]
	i.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("%s/%s is not registered", namespace, name)
	}
	if !item.informer.HasSynced() {
		select {
		case <-item.informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the informer of %s/%s: %w", namespace, name, ctx.Err())
		}
	}
	object, exists, err := item.informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil || !exists {
		return nil, fmt.Errorf("informer: %w", notFound(err, name))
	}
	return object.(*corev1.Secret), nil
}

func notFound(err error, name string) error {
	if err != nil {
		return err
	}
	return apierrors.NewNotFound(corev1.Resource("secrets"), name)
}
