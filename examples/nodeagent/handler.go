// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/server"
	"github.com/refwatch/refwatch/manager/debug"
)

// newHandler returns the handler of the pages of an agent. connections, if not nil, are those of its client. inUse
// returns the options in use.
func newHandler(a *agent.Agent, connections *debug.Connections, inUse func() *options) (http.Handler, error) {
	page := a.DebugOptions()
	page.Connections = connections
	debugPage, err := debug.NewHandler(page)
	if err != nil {
		return nil, err
	}
	return server.NewHandler(server.Options{
		Name:  "nodeagent",
		Ready: a.Ready,
		Flags: func() cliflag.NamedFlagSets { return inUse().flags },
		Pages: map[string]http.Handler{
			"/debug/refwatch": debugPage,
		},
	}), nil
}
