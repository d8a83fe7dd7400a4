// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/metrics"
	"github.com/refwatch/refwatch/test/apiserver"
)

// BenchmarkScrape10000 scrapes a store of 10,000 objects, each with an open stream.
func BenchmarkScrape10000(b *testing.B) {
	server := apiserver.New(b, apiserver.Options{})
	client, err := manager.ClientFor(server.Config())
	if err != nil {
		b.Fatal(err)
	}
	secrets, err := manager.NewSecrets(client, nil)
	if err != nil {
		b.Fatal(err)
	}
	const n = 10_000
	var keys []types.NamespacedName
	for i := range n {
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("absent-", i)})
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- secrets.Run(ctx) }()
	secrets.SetReferences(manager.Owner{Kind: "Benchmark", Name: "owner"}, keys...)
	limit, cancelWait := context.WithTimeout(ctx, 5*time.Minute)
	defer cancelWait()
	if err := secrets.WaitForSync(limit); err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(b, map[string]metrics.Store{"secrets": secrets}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
