// SPDX-License-Identifier: Apache-2.0

// Package metrics exports what managers and stores count as Prometheus metrics, with
// [k8s.io/component-base/metrics]. docs/metrics.md lists the metrics, and what to alert
// on.
//
// A program makes one [Collector] of all its managers and stores, and registers it once:
//
//	collector, err := metrics.NewCollector(map[string]metrics.Store{"secrets": secrets, "configmaps": configMaps})
//	if err != nil {
//		return err
//	}
//	legacyregistry.CustomMustRegister(collector) // a program with component-base
//	registry.MustRegister(collector)             // any prometheus.Registerer
//
// controller-runtime's metrics.Registry is a prometheus.Registerer.
//
// The metrics are read when they are scraped: nothing is counted for them in between, and
// the package starts no goroutine that outlives a scrape. Names of objects, namespaces
// and owners are in no label, and there is no object data.
//
// No other package of this module imports this one. So a program links component-base,
// and with it Prometheus, only if it imports metrics.
package metrics
