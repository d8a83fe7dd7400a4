// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"strings"
	"testing"
	"time"
)

// shrinkWindow leaves the server n bytes on the connection, as if it had used the rest.
// The rest counts as credited.
func (e *exchange) shrinkWindow(n int32) {
	c := e.conn()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inflow = inflow{available: n, withheld: connWindow - n}
}

// lost is how many bytes of the connection's window will never come back.
func (e *exchange) lost() int {
	c := e.conn()
	c.mu.Lock()
	defer c.mu.Unlock()
	return connWindow - int(c.inflow.available) - int(c.inflow.withheld)
}

// Data that nobody gets, or not yet, does not use up the window of the connection: that
// of streams whose frames are ignored, of one that nobody reads, and padding.
func TestFaultConnectionCredit(t *testing.T) {
	for _, state := range []string{"open", "cancelled", "forgotten", "earlier"} {
		for name, mode := range map[string]readMode{"": receive, ", held": hold, ", not consumed": delay} {
			t.Run(state+name, eachOwn(func(t *testing.T, kind clientKind) {
				kind.mode = mode
				e := newExchange(t, kind)
				neighbour := e.openAs("/n", receive)
				v := states[state](e)
				e.wait()
				e.shrinkWindow(100 << 10)
				for range 16 {
					e.data(v.id, strings.Repeat("x", 64<<10))
					e.padded(v.id, false, true, "x")
					e.wait() // the client announces credit before the server needs it
				}
				if got := e.lost(); got != 0 {
					t.Errorf("got %d bytes of the connection's window less, want none", got)
				}
				e.checkNeighbour(&neighbour, false)
			}))
		}
	}
}

// DATA beyond the window of the connection ends it.
func TestFaultDataBeyondConnectionWindow(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		v := e.open("/v")
		c := e.conn()
		c.mu.Lock()
		c.inflow = inflow{available: 10}
		c.mu.Unlock()
		e.checkOutcome(&v, &neighbour, "C.FLOW_CONTROL", func() { e.data(v.id, "more than ten") })
	})
}

// A Receiver that consumes later gets one window and no more, and Consumed lets the
// server go on. Counts that make no sense do no harm.
func TestFaultDelayedCredit(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		v := e.openAs("/v", delay)
		body := v.resp.Body.(Body)
		window := e.streamWindow()
		e.data(v.id, strings.Repeat("x", window))
		e.wait()
		if got := e.credit(v.id); got != 0 {
			t.Errorf("got %d bytes of credit for data that was not consumed, want 0", got)
		}
		body.Consumed(-5)
		body.Consumed(0)
		e.wait()
		if got := e.credit(v.id); got != 0 {
			t.Errorf("got %d bytes of credit for nothing, want 0", got)
		}
		body.Consumed(window / 2)
		e.wait()
		if got, want := e.credit(v.id), window/2; got != want {
			t.Errorf("got %d bytes of credit for half a window, want %d", got, want)
		}
		body.Consumed(10 * window)
		e.wait()
		if got, want := e.credit(v.id), window; got != want {
			t.Errorf("got %d bytes of credit for more than has come, want %d", got, want)
		}
		e.data(v.id, strings.Repeat("x", window))
		e.endData(v.id, "")
		e.wait()
		if got, want := len(v.body()), 2*window; got != want || v.end() != "regular" {
			t.Errorf("got %d bytes, end %s (%v), want %d bytes and the regular end", got, v.end(), v.failure(), want)
		}
		body.Consumed(window)
		e.wait()
		if got, want := e.credit(v.id), window; got != want {
			t.Errorf("got %d bytes of credit after the end, want no more than before: %d", got, want)
		}
	})
}

// What nobody has read is freed with Close, even if the caller keeps the response.
func TestFaultUnreadDataIsFreed(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		e.mute()
		v := e.openAs("/v", hold)
		before := heap()
		e.data(v.id, strings.Repeat("x", e.streamWindow()))
		e.wait()
		v.close()
		e.wait()
		if got := heap() - before; got > floodHeap {
			t.Errorf("got %d bytes of heap more, want at most %d", got, floodHeap)
		}
		if _, err := v.resp.Body.Read(make([]byte, 1)); err == nil || err == io.EOF {
			t.Errorf("got %v of Read after Close, want an error", err)
		}
	})
}

// A response that is complete is read to its end, whatever happens to the stream or the
// connection meanwhile.
func TestFaultAfterCompleteResponse(t *testing.T) {
	for name, fault := range map[string]func(e *exchange, v opened){
		"RST_STREAM NO_ERROR": func(e *exchange, v opened) { e.reset(v.id, 0) },
		"RST_STREAM":          func(e *exchange, v opened) { e.reset(v.id, 2) },
		"GOAWAY":              func(e *exchange, v opened) { e.goAway(0, 2) },
		"cut":                 func(e *exchange, v opened) { e.cut() },
		"protocol error":      func(e *exchange, v opened) { e.data(0, "x") },
		"silence":             func(*exchange, opened) { time.Sleep(time.Minute) },
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			v := e.openAs("/v", hold)
			e.endData(v.id, strings.Repeat("text ", 1000))
			e.wait()
			fault(e, v)
			e.wait()
			got, err := io.ReadAll(v.resp.Body)
			if want := 5000; len(got) != want || err != nil {
				t.Errorf("got %d bytes, %v; want %d and no error", len(got), err, want)
			}
		}))
	}
}
