// SPDX-License-Identifier: Apache-2.0

package soak_test

import (
	"context"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/soak"
)

var options = soak.Flags(soak.Options{
	Period: 4 * time.Second, Objects: 200, Updates: 400, Churn: 40, Faults: 200 * time.Millisecond, Fresh: 4 * time.Second,
})

// All promises hold on the in-process server while connections are cut and pods come and go.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: not with -short")
	}
	server := apiserver.New(t, apiserver.Options{})
	streams := func(context.Context) (int, error) { return server.TotalStreams(), nil }
	observe := func(opened, closed func(resource, name string)) {
		server.Observe(apiserver.Observer{StreamOpened: ofManagers(opened), StreamClosed: ofManagers(closed)})
	}
	soak.Run(t, soak.Server{Config: server.Config(), Streams: streams, Observe: observe}, *options)
}

// ofManagers calls f for the requests of the managers under test.
func ofManagers(f func(resource, name string)) func(apiserver.Request) {
	return func(r apiserver.Request) {
		if r.UserAgent == soak.UserAgent {
			f(r.Resource, r.Name)
		}
	}
}
