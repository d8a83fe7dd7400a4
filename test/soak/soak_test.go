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
	Period: 4 * time.Second, Objects: 200, Updates: 400, Churn: 40, Faults: 200 * time.Millisecond,
})

// All promises hold on the in-process server while connections are cut and pods come and go.
func TestSoak(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	streams := func(context.Context) (int, error) { return server.TotalStreams(), nil }
	soak.Run(t, soak.Server{Config: server.Config(), Streams: streams}, *options)
}
