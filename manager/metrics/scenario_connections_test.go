// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The metrics of a Gate, and the JSON of the debug page, have why connections were left, and
// the codes of servers.
func TestScenarioOfConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		client, err := manager.ClientFor(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		store, err := objectcache.NewStore(resource.Secrets(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, Store: store, server: server, client: client, registry: prometheus.NewPedanticRegistry()}
		r.registry.MustRegister(newCollector(t, map[string]metrics.Store{"test": store}))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- store.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
		}()
		r.refer("tls")
		r.want("open", map[string]string{`open_streams`: "1", `connections_left_total{reason="goaway"}`: "0", `goaways_total{code="NO_ERROR"}`: "0"})
		server.GoAway()
		time.Sleep(time.Minute)
		r.want("GOAWAY", map[string]string{`connections_left_total{reason="goaway"}`: "1", `connections_left_total{reason="lost"}`: "0"})
		gate := store.Stats().Gate
		goAways := gate.Connections().GoAways["NO_ERROR"]
		if goAways == 0 {
			t.Error("got no GOAWAY with NO_ERROR, want those of the server")
		}

		handler, err := debug.NewHandler(debug.Options{Gates: map[string]*objectcache.Gate{"cluster": gate}, Sources: map[string]debug.Source{"secrets": store}})
		if err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Header.Set("Accept", "application/json")
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		text := response.Body.String()
		var report debug.Report
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			t.Fatal(err)
		}
		got := report.Gates[0].Connections
		if got == nil || got.Left["goaway"] != 1 || got.GoAways["NO_ERROR"] != goAways || strings.Contains(text, "poisoned") {
			t.Errorf("JSON: got %+v, want one connection that was left, and no count of 0", got)
		}
	})
}
