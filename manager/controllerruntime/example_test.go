// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// An operator that may not list Secrets reads one by its name, from a cache.
func ExampleNewCache() {
	server := serverWithSecret()
	defer server.Close()
	server.Authorize(func(r apiserver.Request) bool { return r.Resource != "secrets" || r.Name == "tls" })

	mgr, err := ctrl.NewManager(server.Config(), ctrl.Options{
		NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}), // the one line
		Metrics:  metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })
	mgr.GetCache().WaitForCacheSync(ctx)

	secret := &corev1.Secret{}
	err = mgr.GetClient().Get(ctx, types.NamespacedName{Namespace: "default", Name: "tls"}, secret)
	fmt.Println(string(secret.Data["tls.crt"]), err)
	err = mgr.GetClient().List(ctx, &corev1.SecretList{})
	fmt.Println(errors.Is(err, controllerruntime.ErrListRefused))

	cancel()
	running.Wait()
	// Output:
	// certificate <nil>
	// true
}

// widgetReconciler reconciles ConfigMaps, which stand for a custom resource that names a Secret.
type widgetReconciler struct {
	client  client.Client
	secrets *manager.Manager[*corev1.Secret]
	done    chan string
}

func (r *widgetReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	owner := manager.Owner{Kind: "ConfigMap", Namespace: request.Namespace, Name: request.Name}
	widget := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, widget); apierrors.IsNotFound(err) {
		r.secrets.SetReferences(owner) // it is deleted: its name is enough
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, err // not deleted: the references stay
	}
	owner.UID = widget.UID
	name := widget.Data["secret"]
	if name == "" {
		r.secrets.SetReferences(owner) // it references nothing
		return ctrl.Result{}, nil
	}
	r.secrets.SetReferences(owner, types.NamespacedName{Namespace: request.Namespace, Name: name})
	secret, err := r.secrets.TryGet(request.Namespace, name)
	if errors.Is(err, objectcache.ErrNotSynced) {
		return ctrl.Result{}, nil // the source enqueues the request when the state is known
	}
	if err == nil {
		r.done <- string(secret.Data["tls.crt"])
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// A reconciler sets the references of its object. A change of what is referenced comes
// back as a request. A reader, a runnable and a readiness check belong to it.
func ExampleNewSource() {
	server := serverWithSecret()
	defer server.Close()
	mgr, err := ctrl.NewManager(server.Config(), ctrl.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		panic(err)
	}
	streams, err := manager.ClientFor(mgr.GetConfig())
	if err != nil {
		panic(err)
	}
	secrets, err1 := manager.NewSecrets(streams, objectcache.WatchOptions{})
	owners, err2 := controllerruntime.NewSource(secrets, "ConfigMap")
	reconciler := &widgetReconciler{client: mgr.GetClient(), secrets: secrets, done: make(chan string, 10)}
	if err := errors.Join(err1, err2,
		mgr.Add(controllerruntime.NewRunnable(secrets)),
		mgr.AddReadyzCheck("secrets", controllerruntime.Healthz(secrets, controllerruntime.HealthzOptions{})),
		ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).WatchesRawSource(owners).Complete(reconciler),
	); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })

	widget := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "widget"}, Data: map[string]string{"secret": "tls"}}
	if _, err := server.Client().CoreV1().ConfigMaps("default").Create(ctx, widget, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(<-reconciler.done)

	cancel()
	running.Wait()
	// Output: certificate
}

// Code that takes a client.Reader reads what owners reference.
func ExampleNewReader() {
	server := serverWithSecret()
	defer server.Close()
	secrets, err := manager.NewSecrets(server.Client(), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = controllerruntime.NewRunnable(secrets).Start(ctx) })

	key := types.NamespacedName{Namespace: "default", Name: "tls"}
	secrets.SetReferences(manager.Owner{Kind: "Widget", Namespace: "default", Name: "widget"}, key)
	var reader client.Reader
	if reader, err = controllerruntime.NewReader(secrets); err != nil {
		panic(err)
	}
	secret := &corev1.Secret{}
	err = reader.Get(ctx, key, secret)
	fmt.Println(string(secret.Data["tls.crt"]), err)

	cancel()
	running.Wait()
	// Output: certificate <nil>
}

// serverWithSecret returns a server with the Secret default/tls.
func serverWithSecret() *apiserver.Server {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"tls.crt": []byte("certificate")}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(context.Background(), tls, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	return server
}
