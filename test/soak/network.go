// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/test/network"
)

// noticedWithin is how soon a client must notice a half-open connection: 30 s of silence, 15 s for the answer to a
// PING, and some for a machine that is busy.
const noticedWithin = time.Minute

// connections injects faults into the connections of two networks at the same time, and counts them.
type connections struct {
	managers *network.Network // under test
	others   *network.Network // managers that run shortly

	mu      sync.Mutex
	down    bool                   // connections are refused
	damaged map[*network.Conn]bool // of the open connections, those that were cut or are half open
	cuts    int                    // connections that were cut
	lost    int                    // connections that became half open
	lists   int                    // dials of the managers under test for requests that are not watches
}

// newConnections returns networks that dial like a client with that configuration. onDial is called when the managers
// under test dial for watches.
func newConnections(config *rest.Config, onDial func()) *connections {
	n := &connections{managers: network.New(config.Dial), others: network.New(config.Dial)}
	n.managers.OnDial(func(int) network.Dial {
		if forWatches() {
			onDial()
		} else {
			n.mu.Lock()
			n.lists++
			n.mu.Unlock()
		}
		return n.dial()
	})
	n.others.OnDial(func(int) network.Dial { return n.dial() })
	n.managers.OnConnect(n.connected)
	n.others.OnConnect(n.connected)
	return n
}

// forWatches reports whether the calling dial is one of package transport, which dials for watches. Lists are sent by
// net/http: while it has no connection, it dials one for each request.
func forWatches() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "github.com/refwatch/refwatch/internal/h2.") {
			return true
		}
	}
	return false
}

// dial returns what a dial calls.
func (n *connections) dial() network.Dial {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return network.Refuse
	}
	return nil
}

// connected resets a connection that was dialed before the network went down.
func (n *connections) connected(c *network.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		c.Reset()
	}
}

// each calls f for each open connection.
func (n *connections) each(f func(*network.Conn)) {
	n.managers.Each(f)
	n.others.Each(f)
}

// cutOne cuts a random connection, in the middle of whatever it carries.
func (n *connections) cutOne() {
	if c := n.pick(&n.cuts); c != nil {
		c.Reset()
	}
}

// cutAll cuts all connections that are healthy.
func (n *connections) cutAll() {
	for c := n.pick(&n.cuts); c != nil; c = n.pick(&n.cuts) {
		c.Reset()
	}
}

// loseOne makes a random connection half open.
func (n *connections) loseOne() {
	if c := n.pick(&n.lost); c != nil {
		c.Freeze()
	}
}

// pick returns a random healthy connection, and counts it. The caller damages it.
func (n *connections) pick(count *int) *network.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var healthy []*network.Conn
	damaged := map[*network.Conn]bool{}
	n.each(func(c *network.Conn) {
		if n.damaged[c] {
			damaged[c] = true
		} else {
			healthy = append(healthy, c)
		}
	})
	n.damaged = damaged
	if len(healthy) == 0 {
		return nil
	}
	c := healthy[rand.IntN(len(healthy))]
	n.damaged[c] = true
	*count++
	return c
}

// setDown refuses new connections and cuts those that are open, or accepts connections again.
func (n *connections) setDown(down bool) {
	n.mu.Lock()
	n.down = down
	n.mu.Unlock()
	if down {
		n.each((*network.Conn).Reset)
	}
}

// heal cuts the connections that are half open, and returns how many of them the client should have noticed.
func (n *connections) heal() (overdue int) {
	n.each(func(c *network.Conn) {
		since, lost := c.Frozen()
		if !lost {
			return
		}
		if time.Since(since) > noticedWithin {
			overdue++
		}
		c.Reset()
	})
	return overdue
}

// counts are the numbers of both networks, and of the dials of the managers under test.
type counts struct{ open, established, refused, lists, cuts, lost int }

func (n *connections) counts() counts {
	dials := n.managers.Counts()
	n.mu.Lock()
	defer n.mu.Unlock()
	return counts{
		open:        dials.Open + n.others.Counts().Open,
		established: dials.Dials - dials.Failed,
		refused:     dials.Failed,
		lists:       n.lists,
		cuts:        n.cuts,
		lost:        n.lost,
	}
}
