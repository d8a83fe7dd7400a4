// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The code of docs/guides/node-agents.md.

type agent struct {
	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
	queue      podQueue
	mount      func(pod *corev1.Pod, secret *corev1.Secret)
}

// podQueue holds the pods to be synced.
type podQueue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

func newAgent(config *rest.Config) (*agent, error) {
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	options := objectcache.WatchOptions{
		Gate: objectcache.NewGate(objectcache.GateOptions{Name: "cluster"}), // one for both managers
	}
	secrets, err1 := manager.NewSecrets(client, options)
	configMaps, err2 := manager.NewConfigMaps(client, options)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())
	return &agent{secrets: secrets, configMaps: configMaps, queue: queue}, nil
}

func (a *agent) podChanged(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		a.podGone(pod)
		return
	}
	a.secrets.RegisterPod(pod) // again for each change: a call without a change costs next to nothing
	a.configMaps.RegisterPod(pod)
	a.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

func (a *agent) podGone(pod *corev1.Pod) {
	a.secrets.UnregisterPod(pod)
	a.configMaps.UnregisterPod(pod)
}

func (a *agent) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { a.podChanged(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { a.podChanged(object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			a.podGone(object.(*corev1.Pod))
		},
	}
}

func (a *agent) sync(ctx context.Context, pod *corev1.Pod, name string) error {
	secret, err := a.secrets.TryGet(pod.Namespace, name)
	switch {
	case err == nil:
		a.mount(pod, secret)
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the pod cannot start: %w", err) // and is synced again once the Secret exists
	case apierrors.IsForbidden(err): // first, because ErrNotSynced holds as well
		return fmt.Errorf("the pod waits for a right: %w", err) // and is synced again once it is granted
	case errors.Is(err, objectcache.ErrNotSynced):
		klog.FromContext(ctx).V(2).Info("The Secret is not in memory yet", "err", err)
		return nil // its first state enqueues the pod
	default:
		return err // not registered: an error of the agent
	}
}

func enqueueOwners[T cache.Object](ctx context.Context, objects *manager.Manager[T], queue podQueue) {
	for change, owners := range objects.Changes(ctx) {
		if change.Err != nil { // absent, deleted or refused
			klog.FromContext(ctx).Info("An object cannot be used", "err", change.Err)
		}
		for _, owner := range owners {
			queue.Add(types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
		}
	}
}

// run returns when ctx and all goroutines of the agent have ended.
func (a *agent) run(ctx context.Context, worker func()) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = a.secrets.Run(ctx) }) // nil, unless Run was called before
	running.Go(func() { _ = a.configMaps.Run(ctx) })
	running.Go(func() { enqueueOwners(ctx, a.secrets, a.queue) })
	running.Go(func() { enqueueOwners(ctx, a.configMaps, a.queue) })
	running.Go(worker) // takes pods from the queue and calls sync
	<-ctx.Done()
	a.queue.ShutDown() // ends the worker
}

// serveSecret starts a server with the Secret "shop/tls".
func serveSecret() (*apiserver.Server, *corev1.Secret) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	ctx, client := context.Background(), server.Client().CoreV1()
	if _, err := client.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"version": []byte("1")}}
	if secret, err = client.Secrets("shop").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	return server, secret
}

// newPod returns a pod that mounts the Secret "tls".
func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "6f9c"},
		Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "web", Image: "web"}},
			Volumes: []corev1.Volume{{
				Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls"}},
			}},
		},
	}
}

// podInformer returns an informer of the pods of a node.
func podInformer(client kubernetes.Interface, node string) toolscache.SharedIndexInformer {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	})).Core().V1().Pods().Informer()
}

// The agent of the guide mounts a Secret, and mounts it again when it has changed.
func Example_nodeAgent() {
	server, secret := serveSecret()
	defer server.Close()
	client := server.Client().CoreV1()
	a, err := newAgent(server.Config())
	if err != nil {
		panic(err)
	}
	pod, err := client.Pods("shop").Create(context.Background(), newPod(), metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}
	mounted := make(chan string, 9)
	a.mount = func(_ *corev1.Pod, secret *corev1.Secret) { mounted <- string(secret.Data["version"]) }

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error)
	pods := podInformer(server.Client(), "node-1")
	if _, err := pods.AddEventHandler(a.handler()); err != nil {
		panic(err)
	}
	go func() { pods.RunWithContext(ctx); ended <- nil }()
	worker := func() {
		for key, shutdown := a.queue.Get(); !shutdown; key, shutdown = a.queue.Get() {
			if err := a.sync(ctx, pod, "tls"); err != nil {
				fmt.Println(key, err)
			}
			a.queue.Done(key)
		}
	}
	go func() { a.run(ctx, worker); ended <- nil }()

	fmt.Println("mounted version", <-mounted)
	secret.Data["version"] = []byte("2")
	if _, err := client.Secrets("shop").Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
	for version := range mounted {
		if version == "2" {
			fmt.Println("mounted version", version)
			break
		}
	}
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// mounted version 1
	// mounted version 2
}
