// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
)

// An operator has metrics and a debug page of the Secrets that its cache holds, also
// before the first Get.
func ExampleCache_Store() {
	server := serverWithSecret()
	defer server.Close()
	mgr, err := ctrl.NewManager(server.Config(), ctrl.Options{
		NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{}),
		Metrics:  metricsserver.Options{BindAddress: "127.0.0.1:0"},
	})
	if err != nil {
		panic(err)
	}
	held := mgr.GetCache().(*controllerruntime.Cache) // made by NewCache
	secrets, err := held.Store(&corev1.Secret{})      // one for each kind of CacheOptions.For
	if err != nil {
		panic(err)
	}
	collector, err1 := metrics.NewCollector(map[string]metrics.Store{"secrets": secrets})
	page, err2 := debug.NewHandler(debug.Options{
		Sources: map[string]debug.Source{"secrets": secrets},
		Gates:   map[string]*objectcache.Gate{"cluster": secrets.Stats().Gate},
	})
	if err := errors.Join(err1, err2,
		ctrlmetrics.Registry.Register(collector),                  // served at /metrics
		mgr.AddMetricsServerExtraHandler("/debug/refwatch", page), // on the same address
	); err != nil {
		panic(err)
	}
	defer ctrlmetrics.Registry.Unregister(collector) // no operator needs this
	printState("before:", page)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = mgr.Start(ctx) })
	mgr.GetCache().WaitForCacheSync(ctx)
	if err := mgr.GetClient().Get(ctx, types.NamespacedName{Namespace: "default", Name: "tls"}, &corev1.Secret{}); err != nil {
		panic(err)
	}
	printState("after: ", page)

	cancel()
	running.Wait()
	// Output:
	// before: refwatch_references 0, on the page: []
	// after:  refwatch_references 1, on the page: [default/tls]
}

// printState prints a metric, and the keys of the objects on the page.
func printState(when string, page http.Handler) {
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		panic(err)
	}
	response := httptest.NewRecorder()
	page.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/debug/refwatch?format=json", nil))
	var report debug.Report
	if err := json.Unmarshal(response.Body.Bytes(), &report); err != nil {
		panic(err)
	}
	keys := []string{}
	for _, object := range report.Objects {
		keys = append(keys, object.Key())
	}
	for _, family := range families {
		if family.GetName() == "refwatch_references" {
			fmt.Printf("%s %s %v, on the page: %v\n", when, family.GetName(), family.GetMetric()[0].GetGauge().GetValue(), keys)
		}
	}
}
