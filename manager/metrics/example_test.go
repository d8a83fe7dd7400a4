// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	compbasemetrics "k8s.io/component-base/metrics"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/test/clients"
)

// A program with component-base's registry serves the metrics with its own.
func ExampleNewCollector() {
	client := clients.Nowhere()
	secrets, err := manager.NewSecrets(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	configMaps, err := manager.NewConfigMaps(client, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	collector, err := metrics.NewCollector(map[string]metrics.Store{"secrets": secrets, "configmaps": configMaps})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := compbasemetrics.NewKubeRegistry() // or legacyregistry.CustomMustRegister
	registry.CustomMustRegister(collector)
	mux := http.NewServeMux()
	mux.Handle("/metrics", compbasemetrics.HandlerFor(registry, compbasemetrics.HandlerOpts{}))
}

// Any prometheus.Registerer takes a collector: controller-runtime's metrics.Registry, too.
func ExampleCollector() {
	secrets, err := manager.NewSecrets(clients.Nowhere(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	secrets.SetReferences(manager.Owner{Kind: "Ingress", Namespace: "infra", Name: "web"},
		types.NamespacedName{Namespace: "infra", Name: "tls"})

	collector, err := metrics.NewCollector(map[string]metrics.Store{"secrets": secrets})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry() // in a program with controller-runtime: metrics.Registry
	registry.MustRegister(collector)

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, family := range families {
		if family.GetName() == "refwatch_references" {
			fmt.Println(family.GetName(), family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: refwatch_references 1
}
