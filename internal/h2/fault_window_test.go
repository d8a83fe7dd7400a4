// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"math"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// Windows that overflow, and data beyond a window (RFC 9113, section 6.9).
func TestFaultWindow(t *testing.T) {
	runFaults(t, states["open"], map[string]fault{
		"the stream's window grows to its limit": {func(e *exchange, id uint32) { e.window(id, math.MaxInt32-65535) }, "-"},
		"the stream's window overflows":          {func(e *exchange, id uint32) { e.window(id, math.MaxInt32) }, "S.FLOW_CONTROL/deadlock"},
		"the stream's window overflows in steps": {func(e *exchange, id uint32) {
			e.window(id, math.MaxInt32-65535)
			e.window(id, 1)
		}, "S.FLOW_CONTROL/deadlock"},
		"the connection's window grows to its limit": {func(e *exchange, _ uint32) { e.window(0, math.MaxInt32-65535) }, "-"},
		"the connection's window overflows":          {func(e *exchange, _ uint32) { e.window(0, math.MaxInt32) }, "C.FLOW_CONTROL"},
		"the connection's window overflows in steps": {func(e *exchange, _ uint32) {
			e.window(0, math.MaxInt32-65535)
			e.window(0, 1)
		}, "C.FLOW_CONTROL"},
	})
}

// streamWindow is what the client has announced for each stream.
func (e *exchange) streamWindow() int { return e.setting(http2.SettingInitialWindowSize, 65535) }

// A server that ignores the window of a stream loses that stream only; net/http ends
// the connection. What fits into the window is never an error.
func TestFaultDataBeyondWindow(t *testing.T) {
	for name, test := range map[string]struct {
		beyond int
		want   string
	}{
		"full":   {0, "ok"},
		"beyond": {1, "S.FLOW_CONTROL/C"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []readMode{hold, delay} {
				forEachClient(t, func(t *testing.T, kind clientKind) {
					e := newExchange(t, kind)
					neighbour := e.open("/n")
					victim := e.openAs("/v", mode)
					text := strings.Repeat("x", e.streamWindow()+test.beyond)
					want := test.want
					if want == "ok" && victim.buffers(mode) {
						want = "-" // nobody sees the data
					}
					e.checkOutcome(&victim, &neighbour, want, func() { e.data(victim.id, text) })
				})
			}
		})
	}
}

// buffers reports whether the client keeps the data of the stream to itself.
func (o *opened) buffers(mode readMode) bool {
	_, ours := o.resp.Body.(Body)
	return mode == hold || !ours
}

// Padding and data of length 0 count as RFC 9113 says: all padding, with its length,
// and the credit of padding comes back although nobody reads it.
func TestFaultPaddingCounts(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		v := e.openAs("/v", hold)
		const perFrame = 256
		frames := 2 * e.streamWindow() / perFrame
		left := e.streamWindow()
		granted := e.credit(v.id)
		for range frames {
			if left < perFrame {
				left += e.credit(v.id) - granted
				granted = e.credit(v.id)
			}
			if left < perFrame {
				t.Fatalf("got no credit for padding: %d bytes left", left)
			}
			e.raw(http2.FrameData, http2.FlagDataPadded, v.id, "\xff"+strings.Repeat("\x00", perFrame-1))
			left -= perFrame
		}
		e.checkNeighbour(&neighbour, false)
		v.wantEnd(t, "open", "in the end")
	})
}

// A stream that nobody reads stops itself only. The other one gets all its data.
func TestFaultStuckStream(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		stuck := e.openAs("/stuck", hold)
		e.data(stuck.id, strings.Repeat("x", e.streamWindow()))
		before := e.credit(stuck.id)
		n := e.open("/n")
		for range 4 {
			e.checkNeighbour(&n, false)
		}
		if got := e.credit(stuck.id) - before; got != 0 {
			t.Errorf("got %d bytes of credit for a stream that nobody reads, want 0", got)
		}
		buf := make([]byte, e.streamWindow())
		read := 0
		for read < len(buf) {
			k, err := stuck.resp.Body.Read(buf[read:])
			check(t, err)
			read += k
		}
		if got, least := e.credit(stuck.id)-before, e.streamWindow()/2; got < least {
			t.Errorf("got %d bytes of credit after all was read, want at least %d", got, least)
		}
		e.data(stuck.id, strings.Repeat("x", e.streamWindow()/2))
		e.checkNeighbour(&n, false)
		stuck.wantEnd(t, "open", "in the end")
	})
}
