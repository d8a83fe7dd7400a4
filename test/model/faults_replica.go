// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// silentServer is the class of the faults in which one API server answers nothing. The other one serves what is new:
// see docs/promises.md, "Lost answers".
const silentServer = 44

// The faults of one of two API servers behind one address.
func init() {
	addFaults(
		Fault{38, "one-server-lags", OfOneServer, usualRecovery, lags(3 * time.Second)},
		Fault{silentServer, "one-server-hangs", OfOneServer, usualRecovery, hangsWithStreams},
		Fault{silentServer, "one-server-stopped", OfOneServer, silentRecovery, stops},
		Fault{38, "one-server-without-etcd", OfOneServer, usualRecovery, closesStreamsAnd(responds(internalError))},
		Fault{38, "one-server-slow", OfOneServer, usualRecovery, delays(2 * time.Second)},
		Fault{3, "one-server-lags-and-rollback", OfOneServer, silentRecovery, rollsBackAfter(lags(3 * time.Second))},
		Fault{3, "one-server-hangs-and-rollback", OfOneServer, silentRecovery, rollsBackAfter(hangsWithStreams)},
		Fault{3, "rollback-keeps-streams", OfOneServer, silentRecovery, rollsBackOneServerLater},
	)
}

// hangsWithStreams lets requests wait until the fault ends, and withholds the events of the streams that are open. The
// server goes on to acknowledge PINGs.
func hangsWithStreams(w *World, t Target) (heal func()) {
	over := make(chan struct{})
	requests := hangs(w, t)
	remove := w.eventsOf(func(ctx context.Context, request apiserver.Request, e watch.Event) []watch.Event {
		if t.Has(request) {
			w.reached()
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		return []watch.Event{e}
	})
	return func() {
		requests()
		remove()
		close(over)
	}
}

// stops makes the connections to a server half open, and lets dials to it hang.
func stops(w *World, t Target) (heal func()) {
	isStopped := func(number int) bool { return number%servers == t.server }
	w.connections(func(c *network.Conn) {
		if isStopped(c.Number()) {
			c.Freeze()
		}
	})
	return w.onDial(func(number int) network.Dial {
		if isStopped(number) {
			return network.Hang
		}
		return nil
	})
}

// rollsBackAfter restores the server while a fault of one API server lasts.
func rollsBackAfter(inject func(*World, Target) func()) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		heal := inject(w, t)
		w.restore(noStream)
		for s, n := range w.lags { // a restore ends a lag
			if n > 0 {
				s.Lag(3 * time.Second)
			}
		}
		w.reached()
		return heal
	}
}

// rollsBackOneServerLater restores etcd, and restarts one of the API servers. The streams of the other one go on in
// silence until that is restarted too, when the fault ends.
func rollsBackOneServerLater(w *World, t Target) (heal func()) {
	w.restore(t.Has)
	w.reached()
	return func() { w.closeStreams(t) }
}
