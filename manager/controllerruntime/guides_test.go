// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// managerBefore and managerAfter are the code of docs/guides: the one line in main.go.
func managerBefore(config *rest.Config, scheme *runtime.Scheme) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme})
	return mgr, err
}

func managerAfter(config *rest.Config, scheme *runtime.Scheme) (manager.Manager, error) {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:   scheme,
		NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}), // Secrets by reference
	})
	return mgr, err
}

// managerOfSelected is the code of README: the Secrets with the operator's label as a set, and all others by
// reference.
func managerOfSelected(config *rest.Config, scheme *runtime.Scheme) (manager.Manager, error) {
	own := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/managed-by": "shop"})
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		Cache:  cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: own}}},
		NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{
			Selected: []client.Object{&corev1.Secret{}}, // all others by reference
		}),
	})
	return mgr, err
}

// overNetHTTP is a NewCache whose streams use the transport of the manager's client.
func overNetHTTP(config *rest.Config, options cache.Options) (cache.Cache, error) {
	config = &rest.Config{
		Host: config.Host, UserAgent: config.UserAgent, QPS: config.QPS, Burst: config.Burst,
		Transport: options.HTTPClient.Transport,
	}
	return controllerruntime.NewCache(controllerruntime.CacheOptions{})(config, options)
}

// observe adds the readiness check of docs/guides.
func observe(mgr manager.Manager) error {
	secrets := mgr.GetCache().(*controllerruntime.Cache) // the cache of the one line
	return mgr.AddReadyzCheck("secrets", controllerruntime.Healthz(secrets, controllerruntime.HealthzOptions{}))
}

// Both managers of the guides can be made; the second one has a cache of its own, which
// can be observed.
func Example_guides() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	for _, newManager := range []func(*rest.Config, *runtime.Scheme) (manager.Manager, error){managerBefore, managerAfter, managerOfSelected} {
		mgr, err := newManager(server.Config(), scheme.Scheme)
		if err != nil {
			panic(err)
		}
		_, byReference := mgr.GetCache().(*controllerruntime.Cache)
		fmt.Println(byReference)
		if byReference {
			fmt.Println(observe(mgr))
		}
	}
	// Output:
	// false
	// true
	// <nil>
	// true
	// <nil>
}
