// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// DebugOptions returns what the debug page shows of the agent: the objects of both managers, and their Gate.
func (a *Agent) DebugOptions() debug.Options {
	return debug.Options{
		Sources: map[string]debug.Source{"secrets": a.secrets, "configmaps": a.configMaps},
		Gates:   map[string]*objectcache.Gate{"server": a.gate},
	}
}
