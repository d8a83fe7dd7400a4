// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/server"
)

// newHandler returns the handler of the pages of an agent. inUse returns the options in use.
func newHandler(a *agent.Agent, inUse func() *options) http.Handler {
	return server.NewHandler(server.Options{
		Name:  "nodeagent",
		Ready: a.Ready,
		Flags: func() cliflag.NamedFlagSets { return inUse().flags },
		Pages: map[string]http.Handler{},
	})
}
