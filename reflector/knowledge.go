// SPDX-License-Identifier: Apache-2.0

package reflector

import "time"

// relearnAfter is how long it is believed that a server does not do WatchList:
// it may be upgraded under a client that lives for months.
const relearnAfter = time.Hour

// knowledge is what is known of one resource on a gate's server.
type knowledge struct {
	watchListWorks bool      // one has brought the state
	listUntil      time.Time // WatchList does not work: do not try before
}

func (g *Gate) knownLocked(resource string) *knowledge {
	if g.kinds[resource] == nil {
		g.kinds[resource] = &knowledge{}
	}
	return g.kinds[resource]
}

// usesLists tells whether a resource is to be listed and then watched.
func (g *Gate) usesLists(resource string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.knownLocked(resource).listUntil)
}

// noteWatchList tells that a WatchList has brought the state.
func (g *Gate) noteWatchList(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.knownLocked(resource).watchListWorks = true
}

// noteNoWatchList tells that a WatchList was refused, or that its initial events
// did not end in time. The latter says nothing of a server where others did.
func (g *Gate) noteNoWatchList(resource string, refused bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.knownLocked(resource)
	if refused || !known.watchListWorks {
		known.watchListWorks = false
		known.listUntil = time.Now().Add(relearnAfter)
	}
}
