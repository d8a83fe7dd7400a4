// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/manager"
)

// informerPerSecret runs a SharedInformer with an event handler for each Secret, as an operator does that may not list
// all Secrets.
type informerPerSecret struct {
	ctx    context.Context
	client kubernetes.Interface
	items  sync.Map // name to *informerItem
}

type informerItem struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
}

func newInformer(ctx context.Context, config *rest.Config, _ string) (Contender, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &informerPerSecret{ctx: ctx, client: client}, nil
}

// RegisterPod implements [Registrar].
func (i *informerPerSecret) RegisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		informer := informers.NewFilteredSecretInformer(i.client, pod.Namespace, 0, cache.Indexers{},
			func(options *metav1.ListOptions) { options.FieldSelector = selector })
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{}) // fails only after a stop
		ctx, stop := context.WithCancel(i.ctx)
		i.items.Store(name, &informerItem{informer, stop})
		go informer.RunWithContext(ctx)
	})
}

// UnregisterPod implements [Registrar].
func (i *informerPerSecret) UnregisterPod(pod *corev1.Pod) {
	manager.VisitPodSecretNames(pod, func(name string) {
		if item, ok := i.items.LoadAndDelete(name); ok {
			item.(*informerItem).stop()
		}
	})
}

// Get waits for the informer's channel. WaitForCacheSync would poll.
func (i *informerPerSecret) Get(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found, ok := i.items.Load(name)
	if !ok {
		return nil, fmt.Errorf("%s/%s is not registered", namespace, name)
	}
	informer := found.(*informerItem).informer
	if !informer.HasSynced() {
		select {
		case <-informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the informer of %s/%s: %w", namespace, name, ctx.Err())
		}
	}
	object, exists, err := informer.GetStore().GetByKey(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if !exists {
		return nil, fmt.Errorf("%s/%s does not exist", namespace, name)
	}
	return object.(*corev1.Secret), nil
}
