// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// There is one PING at a time, and a server that never answers the one after an RST_STREAM is found as well.
func TestResetsPingIsTheHealthCheck(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		a, b := e.open("/a"), e.open("/b")
		a.close()
		e.wantSent("RST_STREAM 1 CANCEL", "PING")
		time.Sleep(45*time.Second - 1)
		b.wantEnd(t, "open", "in less than 45 s")
		time.Sleep(time.Nanosecond)
		if !e.closed() || !utilnet.IsTimeout(b.failure()) {
			t.Errorf("got %v after 45 s, want a time-out", b.failure())
		}
		e.wantSent()
	})
}

// The slots of streams that were reset would never become free if the server sends data, but acknowledges no PING. So
// it gets no new streams after 15 s. Those that are open go on.
func TestServerThatAcknowledgesNoPing(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		a, b := e.open("/a"), e.open("/b")
		sendFor := func(d time.Duration) {
			for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(time.Second) {
				e.data(b.id, ".")
			}
		}
		a.close()
		sendFor(14 * time.Second)
		e.wantEvents()
		if !e.free() {
			t.Error("the connection takes no stream before the answer is due")
		}
		e.wantEvents("slotFreed")
		sendFor(2 * time.Second)
		e.wantEvents("gone")
		sendFor(time.Hour)
		e.checkNeighbour(&b, false)
		e.pongAll() // too late
		if e.free() {
			t.Error("the connection takes a stream after 15 s without an answer")
		}
		start := time.Now()
		b.close()
		if !e.closed() || time.Since(start) > 0 {
			t.Error("the connection is open after its last stream")
		}
		e.wantEvents()
	})
}

// PINGs that are acknowledged just in time leave the connection as it is, however many follow each other.
func TestAnswersInTime(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		v := e.open("/v")
		for range 20 {
			e.open("/other").close()
			e.wait()
			time.Sleep(15*time.Second - time.Nanosecond)
			e.pongAll()
		}
		if !e.free() {
			t.Error("the connection takes no stream")
		}
		e.wantTaken(1)
		e.checkNeighbour(&v, false)
	})
}

// Without another stream, the connection of a server that acknowledges no PING ends.
func TestIdleServerThatAcknowledgesNoPing(t *testing.T) {
	withConn(t, func(t *testing.T, e *exchange) {
		e.open("/v").close()
		time.Sleep(14 * time.Second)
		e.ping(1)
		time.Sleep(time.Second - 1)
		if e.closed() {
			t.Error("the connection has ended in less than 15 s")
		}
		time.Sleep(time.Nanosecond)
		if !e.closed() {
			t.Error("the connection is open after 15 s")
		}
	})
}
