// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// useSecret calls use with a Secret of a pod.
func useSecret(config *rest.Config, pod *corev1.Pod, use func(*corev1.Secret, error)) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := manager.ClientFor(config) // for many streams: no rate limit, its own connections
	if err != nil {
		return err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- secrets.Run(ctx) }() // returns when ctx and all its goroutines have ended

	secrets.RegisterPod(pod)                       // starts a watch for each Secret that the pod names
	secret, err := secrets.Get(ctx, "shop", "tls") // waits for the first read; from then on it is in memory
	secrets.UnregisterPod(pod)                     // the last reference to go ends the watch
	use(secret, err)

	stop()
	return <-ended
}

// A pod's Secret, in ten lines.
func Example_tenLines() {
	server := serve(context.Background())
	defer server.Close()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "6f9c"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "tls"}}},
	}
	use := func(secret *corev1.Secret, err error) { fmt.Println(secret != nil, err) }
	fmt.Println(useSecret(server.Config(), pod, use))
	// Output:
	// false secrets "shop/tls" not found
	// <nil>
}

// nodeAgent serves one pod.
func nodeAgent(ctx context.Context, config *rest.Config, pod *corev1.Pod, use func(*corev1.Secret)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	client, err := manager.ClientFor(config) // for many streams: no rate limit, its own connections
	if err != nil {
		return err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- secrets.Run(ctx) }() // returns when ctx and all its goroutines have ended

	secrets.RegisterPod(pod) // starts a watch for each Secret that the pod names
	wait, cancel := context.WithTimeout(ctx, 5*time.Second)
	secret, err := secrets.Get(wait, pod.Namespace, "tls")
	cancel()
	switch {
	case err == nil:
		use(secret) // shared by all callers: make a DeepCopy before you change it
	case apierrors.IsNotFound(err):
		// The server has no such Secret.
	case apierrors.IsForbidden(err):
		// The server refuses access. Get again later: a grant is noticed.
	default:
		klog.FromContext(ctx).Error(err, "The Secret could not be read")
	}
	secrets.UnregisterPod(pod) // the last reference to go ends the watch

	stop()
	return <-ended
}

// A node agent, from making its client to stopping.
func Example() {
	server := serve(context.Background())
	defer server.Close()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "6f9c"},
		Spec:       corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "tls"}}},
	}
	use := func(secret *corev1.Secret) { fmt.Println("keys:", len(secret.Data)) }
	if err := nodeAgent(context.Background(), server.Config(), pod, use); err != nil {
		fmt.Println(err)
	}
	// Output:
	// keys: 1
}

// reconciler serves Ingresses with the certificates that they name.
type reconciler struct {
	ingress func(types.NamespacedName) (*networkingv1.Ingress, error) // for example of a lister
	secrets *manager.Manager[*corev1.Secret]
	serve   func(certificate *corev1.Secret)
}

func (r *reconciler) Reconcile(ctx context.Context, name types.NamespacedName) error {
	owner := manager.Owner{Kind: "Ingress", Namespace: name.Namespace, Name: name.Name}
	ingress, err := r.ingress(name)
	if apierrors.IsNotFound(err) {
		r.secrets.SetReferences(owner) // forgets the owner: its name is enough
		return nil
	}
	if err != nil {
		return err
	}
	owner.UID = ingress.UID
	var keys []types.NamespacedName
	for _, tls := range ingress.Spec.TLS {
		if tls.SecretName != "" { // the field is optional
			keys = append(keys, types.NamespacedName{Namespace: name.Namespace, Name: tls.SecretName})
		}
	}
	r.secrets.SetReferences(owner, keys...) // the full set, each time

	for _, key := range keys {
		certificate, err := r.secrets.TryGet(key.Namespace, key.Name) // never waits
		switch {
		case err == nil:
			r.serve(certificate)
		case errors.Is(err, objectcache.ErrInvalidName):
			klog.FromContext(ctx).Error(err, "The Ingress names a Secret that cannot exist")
		}
	}
	return nil // for all other Secrets the Ingress is enqueued when their state is known
}

// enqueueOwners enqueues the Ingresses whose certificates change, until ctx ends.
func (r *reconciler) enqueueOwners(ctx context.Context, enqueue func(types.NamespacedName)) {
	for change, owners := range r.secrets.Changes(ctx) {
		if change.Err != nil { // absent, deleted or refused: change.Object is nil
			klog.FromContext(ctx).Error(change.Err, "No certificate")
		}
		for _, owner := range owners {
			if owner.IsKind("Ingress") {
				enqueue(types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name})
			}
		}
	}
}

// serveAll begins to serve when the certificates are in memory.
func (r *reconciler) serveAll(ctx context.Context) {
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := r.secrets.WaitForSync(wait); err != nil { // all that are referenced now
		klog.FromContext(ctx).Error(err, "Serving without these certificates")
	}
}

// A controller serves an Ingress with the certificate that it names, serves it
// again when the certificate changes, and forgets the Ingress by its name.
func Example_controller() {
	ctx, stop := context.WithCancel(context.Background())
	server := serve(ctx)
	defer server.Close()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	ingresses := map[types.NamespacedName]*networkingv1.Ingress{web: {
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "77aa"},
		Spec:       networkingv1.IngressSpec{TLS: []networkingv1.IngressTLS{{SecretName: "tls"}, {SecretName: ""}}},
	}}
	client, err := manager.ClientFor(server.Config())
	if err != nil {
		panic(err)
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- secrets.Run(ctx) }()
	var served string
	r := &reconciler{
		ingress: func(name types.NamespacedName) (*networkingv1.Ingress, error) {
			if ingress, ok := ingresses[name]; ok {
				return ingress, nil
			}
			return nil, apierrors.NewNotFound(networkingv1.Resource("ingresses"), name.Name)
		},
		secrets: secrets,
		serve:   func(certificate *corev1.Secret) { served = certificate.Name },
	}
	fmt.Println("error:", r.Reconcile(ctx, web))
	r.serveAll(ctx)
	receiving, cancel := context.WithCancel(ctx)
	r.enqueueOwners(receiving, func(name types.NamespacedName) { // a program adds the name to its queue
		fmt.Println("enqueued", name)
		fmt.Println("error:", r.Reconcile(ctx, name))
		fmt.Println("serving", served)
		cancel()
	})
	delete(ingresses, web)
	fmt.Println("error:", r.Reconcile(ctx, web))
	_, err = secrets.Get(ctx, "default", "tls")
	fmt.Println(err)
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// error: <nil>
	// enqueued default/web
	// error: <nil>
	// serving tls
	// error: <nil>
	// secrets "default/tls": not registered: no owner references the object: add a reference, or set AcquireOnGet
	// ended: <nil>
}

// several keeps objects of three kinds with one Gate. docs/features.md shows how the
// stores and managers are made.
func several(ctx context.Context, config *rest.Config, path schema.GroupVersionResource, show func(...any)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	client, err := manager.ClientFor(config)
	if err != nil {
		return err
	}
	gate := objectcache.NewGate(objectcache.GateOptions{}) // one for all stores that use one server with one user
	options := objectcache.WatchOptions{Gate: gate}
	secrets, err1 := manager.NewSecrets(client, options)
	configMaps, err2 := manager.NewConfigMaps(client, options)
	// path has the group, the version and the resource: a schema.GroupVersionResource.
	kind := resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, path)
	store, err3 := objectcache.NewStore(kind, options)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	widgets, err := manager.New(store, nil) // nil: pods do not name widgets, SetReferences does
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = configMaps.Run(ctx) })
	running.Go(func() { _ = secrets.Run(ctx) })
	running.Go(func() { _ = widgets.Run(ctx) })

	owner := manager.Owner{Kind: "Gateway", Namespace: "default", Name: "web"}
	secrets.SetReferences(owner, types.NamespacedName{Namespace: "default", Name: "tls"})
	widgets.SetReferences(owner, types.NamespacedName{Namespace: "default", Name: "settings"})
	if err := secrets.WaitForOwner(ctx, owner); err != nil {
		return err
	}
	for status := range secrets.Statuses() {
		show(status.Key, status.Exists, status.LastError)
	}
	object, err := widgets.Get(ctx, "default", "settings")
	if err != nil {
		return err
	}
	show(object.GetKind(), object.GetName())
	return nil
}

// Stores of several kinds, one of them without a Go type, share a Gate.
func Example_severalKinds() {
	server := serve(context.Background())
	defer server.Close()
	show := func(what ...any) { fmt.Println(what...) }
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	if err := several(context.Background(), server.Config(), configMaps, show); err != nil {
		fmt.Println(err)
	}
	// Output:
	// default/tls true <nil>
	// ConfigMap settings
}
