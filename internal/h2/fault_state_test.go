// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// stateTable says what becomes of each frame in each state of its stream.
//
//   - nothing: the frame is ignored
//     ok         the stream has got something and goes on
//     end        the regular end of the stream
//     err        the stream fails
//     S.CODE     the stream fails, and the server gets RST_STREAM with this code
//     G.CODE     the connection takes no new streams, and the server gets GOAWAY with this code
//     C.CODE     the connection ends, and the server gets GOAWAY with this code
//
// Whenever the connection does not end, its other stream goes on, and it answers a
// PING. What net/http's client does stands behind a slash where it is something else.
// The code of its GOAWAY is not compared, as it mostly stays in a buffer.
//
// RFC 9113 allows to ignore whatever comes for a stream that was closed, and to end the
// connection where the server itself has closed it (section 5.1). It also allows to treat
// any error of a stream as one of the connection (section 5.4).
const stateTable = `
frame         zero       idle         even         waiting    open         draining     cancelled  forgotten  earlier    ended             reset             refused
DATA          C.PROTOCOL C.PROTOCOL   C.PROTOCOL/- S.PROTOCOL ok           ok           -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
DATA-empty    C.PROTOCOL C.PROTOCOL   C.PROTOCOL/- S.PROTOCOL -            -            -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
DATA-end      C.PROTOCOL C.PROTOCOL   C.PROTOCOL/- S.PROTOCOL end          end          -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
HEADERS       C.PROTOCOL C.PROTOCOL/- C.PROTOCOL/- ok         S.PROTOCOL/C S.PROTOCOL/C -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
HEADERS-end   C.PROTOCOL C.PROTOCOL/- C.PROTOCOL/- end        S.PROTOCOL/C S.PROTOCOL/C -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
trailers      C.PROTOCOL C.PROTOCOL/- C.PROTOCOL/- S.PROTOCOL end          end          -          -          -          G.STREAM_CLOSED/- G.STREAM_CLOSED/- G.STREAM_CLOSED/-
PRIORITY      C.PROTOCOL -            -            -          -            -            -          -          -          -                 -                 -
RST_STREAM    C.PROTOCOL C.PROTOCOL/- C.PROTOCOL/- err        err          err          -          -          -          -                 -                 -
PUSH_PROMISE  C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL C.PROTOCOL C.PROTOCOL        C.PROTOCOL        C.PROTOCOL
WINDOW_UPDATE -          C.PROTOCOL/- C.PROTOCOL/- -          -            -            -          -          -          -                 -                 -
WINDOW-0      C.PROTOCOL C.PROTOCOL/- C.PROTOCOL/- S.PROTOCOL S.PROTOCOL   S.PROTOCOL   -          -          -          -                 -                 -
CONTINUATION  C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL C.PROTOCOL C.PROTOCOL        C.PROTOCOL        C.PROTOCOL
SETTINGS      -          C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL C.PROTOCOL C.PROTOCOL        C.PROTOCOL        C.PROTOCOL
PING          -          C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL C.PROTOCOL C.PROTOCOL        C.PROTOCOL        C.PROTOCOL
GOAWAY        -          C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL   C.PROTOCOL   C.PROTOCOL C.PROTOCOL C.PROTOCOL C.PROTOCOL        C.PROTOCOL        C.PROTOCOL
unknown       -          -            -            -          -            -            -          -          -          -                 -                 -
`

// states bring a stream into a state. The stream of a state without one has no call.
var states = map[string]func(*exchange) opened{
	"zero":    func(*exchange) opened { return opened{id: 0} },
	"idle":    func(*exchange) opened { return opened{id: 101} },
	"even":    func(*exchange) opened { return opened{id: 2} },
	"waiting": func(e *exchange) opened { c := e.get("/v"); return opened{c, e.request("/v")} },
	"open":    func(e *exchange) opened { return e.open("/v") },
	// cancelled is a stream whose body was closed.
	"cancelled": func(e *exchange) opened {
		v := e.open("/v")
		v.close()
		e.take("RST_STREAM", func(f frame) bool { return f.Type == http2.FrameRSTStream && f.StreamID == v.id })
		return v
	},
	// forgotten is such a stream after the server has answered the PING behind its
	// RST_STREAM.
	"forgotten": func(e *exchange) opened {
		v := e.open("/v")
		v.close()
		e.pongAll()
		return v
	},
	// draining is a stream that goes on after GOAWAY.
	"draining": func(e *exchange) opened {
		v := e.open("/v")
		e.goAway(v.id, http2.ErrCodeNo)
		return v
	},
	// earlier is a stream that the server has ended before the client reset a later one.
	"earlier": func(e *exchange) opened {
		v := e.open("/v")
		e.endData(v.id, "")
		e.open("/later").close()
		return v
	},
	"ended": func(e *exchange) opened {
		v := e.open("/v")
		e.endData(v.id, "")
		return v
	},
	"reset": func(e *exchange) opened {
		v := e.open("/v")
		e.reset(v.id, http2.ErrCodeInternal)
		return v
	},
	// refused is a stream that the server has refused by GOAWAY.
	"refused": func(e *exchange) opened {
		c := e.get("/v")
		v := opened{c, e.request("/v")}
		e.goAway(v.id-2, http2.ErrCodeNo)
		return v
	},
}

// stateFrames send a frame for a stream.
var stateFrames = map[string]func(e *exchange, id uint32){
	"DATA":          func(e *exchange, id uint32) { e.data(id, "x") },
	"DATA-empty":    func(e *exchange, id uint32) { e.data(id, "") },
	"DATA-end":      func(e *exchange, id uint32) { e.endData(id, "x") },
	"HEADERS":       func(e *exchange, id uint32) { e.ok(id) },
	"HEADERS-end":   func(e *exchange, id uint32) { e.endHeader(id, ":status", "200") },
	"trailers":      func(e *exchange, id uint32) { e.endHeader(id, "checksum", "x") },
	"PRIORITY":      func(e *exchange, id uint32) { e.raw(http2.FramePriority, 0, id, "\x00\x00\x00\x00\x07") },
	"RST_STREAM":    func(e *exchange, id uint32) { e.reset(id, http2.ErrCodeInternal) },
	"PUSH_PROMISE":  func(e *exchange, id uint32) { e.pushPromise(id, 4) },
	"WINDOW_UPDATE": func(e *exchange, id uint32) { e.window(id, 1) },
	"WINDOW-0":      func(e *exchange, id uint32) { e.window(id, 0) },
	"CONTINUATION":  func(e *exchange, id uint32) { e.raw(http2.FrameContinuation, 4, id, "") },
	"SETTINGS":      func(e *exchange, id uint32) { e.raw(http2.FrameSettings, 0, id, "") },
	"PING":          func(e *exchange, id uint32) { e.raw(http2.FramePing, 0, id, "12345678") },
	"GOAWAY":        func(e *exchange, id uint32) { e.raw(http2.FrameGoAway, 0, id, "\x00\x00\x00\x7f\x00\x00\x00\x00") },
	"unknown":       func(e *exchange, id uint32) { e.raw(0x42, 0xff, id, "whatever") },
}

// What becomes of every type of frame in every state of its stream.
func TestFaultFrameInState(t *testing.T) {
	forEachCell(t, stateTable, func(t *testing.T, frame, state, want string) {
		for _, kind := range clientKinds() {
			t.Run(kind.name, inBubble(func(t *testing.T) {
				e := newExchange(t, kind)
				neighbour := e.open("/n")
				victim := states[state](e)
				e.checkOutcome(&victim, &neighbour, want, func() { stateFrames[frame](e, victim.id) })
			}))
		}
	})
}

// forEachCell runs test for the cells of a table. The first line names the columns.
func forEachCell(t *testing.T, table string, test func(t *testing.T, row, column, cell string)) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns := strings.Fields(lines[0])
	rows := map[string]bool{}
	for _, line := range lines[1:] {
		cells := strings.Fields(line)
		if len(cells) != len(columns) {
			t.Fatalf("got %d cells, want %d: %s", len(cells), len(columns), line)
		}
		rows[cells[0]] = true
		for i, cell := range cells[1:] {
			t.Run(cells[0]+"/"+columns[i+1], func(t *testing.T) { test(t, cells[0], columns[i+1], cell) })
		}
	}
	if len(rows) != len(stateFrames) {
		t.Errorf("got %d rows, want one for each of %d frames", len(rows), len(stateFrames))
	}
}
