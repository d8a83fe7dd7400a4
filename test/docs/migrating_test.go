// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/listers"
	"github.com/refwatch/refwatch/objectcache"
)

// The code of docs/guides/migrating.md that needs no other module.

// informerBefore reads a Secret with an informer.
func informerBefore(ctx context.Context, client kubernetes.Interface, handler toolscache.ResourceEventHandler) (*corev1.Secret, error) {
	ctx, stop := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Secrets()
	if _, err := informer.Informer().AddEventHandler(handler); err != nil {
		stop()
		return nil, err
	}
	defer factory.Shutdown()
	defer stop()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	secret, err := informer.Lister().Secrets("shop").Get("tls")
	return secret, err
}

// informerAfter reads a Secret with a manager.
func informerAfter(ctx context.Context, config *rest.Config, ended chan<- error) (*corev1.Secret, error) {
	client, err := manager.ClientFor(config)
	if err != nil {
		return nil, err
	}
	secrets, err := manager.NewSecrets(client, objectcache.WatchOptions{})
	if err != nil {
		return nil, err
	}
	go func() { ended <- secrets.Run(ctx) }()
	owner := manager.Owner{Kind: "Ingress", Namespace: "shop", Name: "web"}
	secrets.SetReferences(owner, types.NamespacedName{Namespace: "shop", Name: "tls"})
	if err := secrets.WaitForSync(ctx); err != nil {
		return nil, err
	}
	var lister corev1listers.SecretLister
	if lister, err = listers.Secrets(secrets, listers.Options{}); err != nil {
		return nil, err
	}
	secret, err := lister.Secrets("shop").Get("tls")
	return secret, err
}

// Both programs of the guide read the same Secret.
func Example_migrateFromInformer() {
	server, _ := serveSecret()
	defer server.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	before, err := informerBefore(ctx, server.Client(), toolscache.ResourceEventHandlerFuncs{})
	fmt.Println(before.Name, err)
	stop()

	ctx, stop = context.WithTimeout(context.Background(), time.Minute)
	ended := make(chan error, 1)
	after, err := informerAfter(ctx, server.Config(), ended)
	fmt.Println(after.Name, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// tls <nil>
	// tls <nil>
	// <nil>
}

// registration and secretMonitor are the interfaces of package
// github.com/openshift/library-go/pkg/secret that the guide uses.
type registration interface {
	toolscache.ResourceEventHandlerRegistration
}

type secretMonitor interface {
	AddSecretEventHandler(ctx context.Context, namespace, secretName string, handler toolscache.ResourceEventHandler) (registration, error)
	RemoveSecretEventHandler(handlerRegistration registration) error
	GetSecret(ctx context.Context, handlerRegistration registration) (*corev1.Secret, error)
}

// routesBefore keeps certificates of routes with the secret monitor.
type routesBefore struct {
	monitor       secretMonitor
	handler       toolscache.ResourceEventHandler
	registrations map[types.NamespacedName]registration // by route
}

func (r *routesBefore) add(ctx context.Context, route types.NamespacedName, secretName string) (*corev1.Secret, error) {
	// AddSecretEventHandler waits for the sync.
	registration, err := r.monitor.AddSecretEventHandler(ctx, route.Namespace, secretName, r.handler)
	if err != nil {
		return nil, err
	}
	r.registrations[route] = registration
	return r.monitor.GetSecret(ctx, registration)
}

func (r *routesBefore) remove(route types.NamespacedName) error {
	registration := r.registrations[route]
	delete(r.registrations, route)
	return r.monitor.RemoveSecretEventHandler(registration)
}

// routes keeps certificates of routes with a manager.
type routes struct {
	secrets *manager.Manager[*corev1.Secret]
}

func (r *routes) add(ctx context.Context, route types.NamespacedName, secretName string) (*corev1.Secret, error) {
	owner := manager.Owner{Kind: "Route", Namespace: route.Namespace, Name: route.Name}
	r.secrets.SetReferences(owner, types.NamespacedName{Namespace: route.Namespace, Name: secretName})
	return r.secrets.Get(ctx, route.Namespace, secretName) // waits for the sync; TryGet does not
}

func (r *routes) remove(route types.NamespacedName) {
	r.secrets.SetReferences(manager.Owner{Kind: "Route", Namespace: route.Namespace, Name: route.Name})
}

// onlyMonitor is a secret monitor of a lister.
type onlyMonitor struct {
	secrets *manager.Manager[*corev1.Secret]
	key     types.NamespacedName
}

func (m *onlyMonitor) AddSecretEventHandler(_ context.Context, namespace, name string, _ toolscache.ResourceEventHandler) (registration, error) {
	m.key = types.NamespacedName{Namespace: namespace, Name: name}
	m.secrets.SetReferences(manager.Owner{Name: "monitor"}, m.key)
	return nil, nil
}

func (m *onlyMonitor) RemoveSecretEventHandler(registration) error {
	m.secrets.SetReferences(manager.Owner{Name: "monitor"})
	return nil
}

func (m *onlyMonitor) GetSecret(ctx context.Context, _ registration) (*corev1.Secret, error) {
	return m.secrets.Get(ctx, m.key.Namespace, m.key.Name)
}

// The route code of the guide keeps a Secret for as long as the route exists.
func Example_migrateFromSecretMonitor() {
	server, _ := serveSecret()
	defer server.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- secrets.Run(ctx) }()

	route := types.NamespacedName{Namespace: "shop", Name: "web"}
	before := &routesBefore{monitor: &onlyMonitor{secrets: secrets}, registrations: map[types.NamespacedName]registration{}}
	secret, err := before.add(ctx, route, "tls")
	fmt.Println(secret.Name, err, before.remove(route))

	after := &routes{secrets}
	secret, err = after.add(ctx, route, "tls")
	fmt.Println(secret.Name, err)
	after.remove(route)
	_, err = secrets.Get(ctx, "shop", "tls")
	fmt.Println(errors.Is(err, objectcache.ErrNotRegistered))
	stop()
	fmt.Println(<-ended)
	// Output:
	// tls <nil> <nil>
	// tls <nil>
	// true
	// <nil>
}
