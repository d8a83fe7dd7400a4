// SPDX-License-Identifier: Apache-2.0

// Package soak_test runs package test/soak on a real control plane. The defaults are short; make soak passes others.
package soak_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

var options = soak.Flags(soak.Options{
	Period: 8 * time.Second, Objects: 200, Updates: 100, Churn: 10, Faults: time.Second, Fresh: 5 * time.Second,
})

// All promises hold on a real API server, which is killed meanwhile.
func TestSoak(t *testing.T) {
	cluster := e2e.New(t, e2e.Options{})
	soak.Run(t, soak.Server{
		Config: cluster.Admin(),
		Streams: func(ctx context.Context) (sum int, err error) {
			for _, resource := range []string{"secrets", "configmaps"} {
				open, err := cluster.OpenWatches(ctx, resource)
				if err != nil {
					return 0, err
				}
				sum += open
			}
			return sum, nil
		},
		Crash: func(ctx context.Context) error {
			cluster.APIServer.Kill()
			return cluster.APIServer.Restart(ctx)
		},
		Goroutines: []goleak.Option{
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"), // a connection of OpenWatches
			goleak.IgnoreAnyFunction("github.com/refwatch/refwatch/test/e2e.(*Process).wait"),
		},
	}, *options)
}
