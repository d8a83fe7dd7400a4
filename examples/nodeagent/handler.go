// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	cliflag "k8s.io/component-base/cli/flag"
	compbasemetrics "k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // rest_client_…
	_ "k8s.io/component-base/metrics/prometheus/workqueue"  // workqueue_…

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/server"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
)

// newHandler returns the handler of the pages of an agent. connections, if not nil, are those of its client. inUse
// returns the options in use.
func newHandler(a *agent.Agent, connections *debug.Connections, inUse func() *options) (http.Handler, error) {
	debugPage, err := debug.NewHandler(debug.Options{
		Sources:     map[string]debug.Source{"secrets": a.Secrets(), "configmaps": a.ConfigMaps()},
		Gates:       map[string]*objectcache.Gate{"server": a.Gate()},
		Connections: connections,
	})
	if err != nil {
		return nil, err
	}
	collector, err := metrics.NewCollector(map[string]metrics.Store{"secrets": a.Secrets(), "configmaps": a.ConfigMaps()})
	if err != nil {
		return nil, err
	}
	// The legacy registry is that of the whole process: Go, requests and queues.
	own := compbasemetrics.NewKubeRegistry()
	own.CustomMustRegister(collector)
	all := prometheus.Gatherers{legacyregistry.DefaultGatherer, own}
	return server.NewHandler(server.Options{
		Name:  "nodeagent",
		Ready: a.Ready,
		Hint:  a.Hint,
		Flags: func() cliflag.NamedFlagSets { return inUse().flags },
		Pages: map[string]http.Handler{
			"/metrics":        compbasemetrics.HandlerFor(all, compbasemetrics.HandlerOpts{}),
			"/debug/refwatch": debugPage,
		},
	}), nil
}
