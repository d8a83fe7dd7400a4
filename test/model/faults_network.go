// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/http"
	"time"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// The faults of the network between the managers and the server, and of their connections.
func init() {
	addFaults(
		Fault{7, "connection-refused", OfServer, usualRecovery, dials(network.Refuse)},
		Fault{7, "dials-hang", OfServer, hangingRecovery, dials(network.Hang)},
		Fault{13, "certificate-rotated", OfServer, usualRecovery, func(w *World, _ Target) func() {
			w.must(w.server.RotateCertificate())
			w.connections((*network.Conn).Reset)
			return nil
		}},
		Fault{14, "half-open", OfServer, silentRecovery, func(w *World, _ Target) func() {
			w.connections((*network.Conn).Freeze)
			return nil
		}},
		Fault{14, "black-hole", OfServer, silentRecovery, func(w *World, _ Target) func() {
			w.connections((*network.Conn).Freeze)
			return w.connects((*network.Conn).Freeze)
		}},
		Fault{15, "connections-cut", OfServer, usualRecovery, func(w *World, _ Target) func() {
			w.connections((*network.Conn).Reset)
			return nil
		}},
		Fault{15, "connections-ended", OfServer, usualRecovery, func(w *World, _ Target) func() {
			w.connections((*network.Conn).End)
			return nil
		}},
		Fault{15, "connections-cut-at-any-byte", OfServer, usualRecovery, func(w *World, _ Target) func() {
			bytes := 1000
			w.connections((*network.Conn).Reset)
			remove := w.connects(func(c *network.Conn) {
				w.mu.Lock()
				defer w.mu.Unlock()
				bytes += 317
				c.ResetAfter(bytes)
			})
			return func() {
				remove()
				w.network.Each((*network.Conn).Reset) // no connection may be cut later
			}
		}},
		Fault{18, "goaway", OfServer, usualRecovery, func(w *World, _ Target) func() {
			w.reached()
			for _, s := range w.servers {
				s.GoAway()
			}
			return nil
		}},
		Fault{18, "goaway-again-and-again", OfServer, usualRecovery, (*World).closeConnections},
		Fault{19, "slow-network", OfServer, usualRecovery, func(w *World, _ Target) func() {
			w.connections(func(c *network.Conn) { c.Slow(2000) })
			remove := w.connects(func(c *network.Conn) { c.Slow(2000) })
			return func() {
				remove()
				w.network.Each(func(c *network.Conn) { c.Slow(0) })
			}
		}},
		Fault{38, "one-backend-of-three-refuses", OfServer, usualRecovery, oneBackend(network.Refuse)},
		Fault{38, "one-backend-of-three-hangs", OfServer, hangingRecovery, oneBackend(network.Hang)},
		Fault{38, "one-backend-of-three-hangs-up", OfServer, usualRecovery, oneBackend(network.HangUp)},
	)
}

// hangingRecovery is that after dials that hang: the last one ends 30 s after the fault.
const hangingRecovery = 45 * time.Second

// dials cuts the connections, and replaces dials.
func dials(dial network.Dial) func(*World, Target) func() {
	return func(w *World, _ Target) func() {
		remove := w.onDial(func(int) network.Dial { return dial })
		w.connections((*network.Conn).Reset)
		return remove
	}
}

// oneBackend cuts the connections to one of three backends, and replaces the dials to it.
func oneBackend(dial network.Dial) func(*World, Target) func() {
	return func(w *World, _ Target) func() {
		isDead := func(number int) bool { return number%3 == 0 }
		remove := w.onDial(func(number int) network.Dial {
			if isDead(number) {
				return dial
			}
			return nil
		})
		w.connections(func(c *network.Conn) {
			if isDead(c.Number()) {
				c.Reset()
			}
		})
		return remove
	}
}

// closeConnections ends the connection of each response after it.
func (w *World) closeConnections(t Target) (heal func()) {
	remove := w.wrapRequests(t, func(rw http.ResponseWriter, r *http.Request, _ apiserver.Request, next http.HandlerFunc) {
		rw.Header().Set("Connection", "close")
		w.closed.Add(1)
		next(rw, r)
	})
	return func() {
		remove()
		w.closed.Store(0)
	}
}
