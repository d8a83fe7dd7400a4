// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/refwatch/refwatch/featuregates"
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

// cacheOptions returns the options of docs/guides for a program with feature gates.
func cacheOptions(gate featuregate.FeatureGate) controllerruntime.CacheOptions {
	return controllerruntime.CacheOptions{
		BlockingStreams: !featuregates.Enabled(gate, featuregates.ParkedStreams),
	}
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
	for _, newManager := range []func(*rest.Config, *runtime.Scheme) (manager.Manager, error){managerBefore, managerAfter} {
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
	fmt.Println("BlockingStreams:", cacheOptions(nil).BlockingStreams)
	// Output:
	// false
	// true
	// <nil>
	// BlockingStreams: false
}
