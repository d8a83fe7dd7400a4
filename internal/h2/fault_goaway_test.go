// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// checkUnprocessed checks whether an error says that the request may be sent again.
// That of net/http's client is not visible.
func (e *exchange) checkUnprocessed(c *call, want bool) {
	e.t.Helper()
	if got := errors.Is(c.failure(), errUnprocessed); got != want && e.kind.name != reference.name {
		e.t.Errorf("got unprocessed %t (%v), want %t", got, c.failure(), want)
	}
}

// GOAWAY at every point of a connection with one response that has begun (stream 1),
// and a request that waits for its header (stream 3). No new streams begin; those up to
// the last id go on, and the others may be sent again; the connection closes after the
// last one (RFC 9113, section 6.8).
func TestFaultGoAway(t *testing.T) {
	for name, test := range map[string]struct {
		last   []uint32
		code   http2.ErrCode
		begun  string // what becomes of stream 1
		waits  string // what becomes of stream 3
		closed bool
	}{
		"all go on":                {[]uint32{1<<31 - 1}, http2.ErrCodeNo, "open", "open", false},
		"all go on, exactly":       {[]uint32{3}, http2.ErrCodeNo, "open", "open", false},
		"an id between":            {[]uint32{2}, http2.ErrCodeNo, "open", "error", false},
		"the first goes on":        {[]uint32{1}, http2.ErrCodeNo, "open", "error", false},
		"none goes on":             {[]uint32{0}, http2.ErrCodeNo, "error", "error", true},
		"graceful":                 {[]uint32{1<<31 - 1, 1}, http2.ErrCodeNo, "open", "error", false},
		"in steps to none":         {[]uint32{1<<31 - 1, 3, 1, 0}, http2.ErrCodeNo, "error", "error", true},
		"twice the same":           {[]uint32{1, 1}, http2.ErrCodeNo, "open", "error", false},
		"a higher id later":        {[]uint32{1, 3}, http2.ErrCodeNo, "open", "error", false},
		"with an error":            {[]uint32{1}, http2.ErrCodeEnhanceYourCalm, "open", "error", false},
		"with an unknown error":    {[]uint32{1}, 0xbad, "open", "error", false},
		"an error, and none is on": {[]uint32{0}, http2.ErrCodeInternal, "error", "error", true},
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			begun := e.open("/a")
			waits := opened{e.get("/b"), e.request("/b")}
			for _, last := range test.last {
				e.goAway(last, test.code)
			}
			e.wait()
			begun.wantEnd(t, test.begun, "for the stream that has begun")
			waits.wantEnd(t, test.waits, "for the stream that waits")
			e.checkUnprocessed(waits.call, test.waits == "error")
			if e.free() {
				t.Errorf("got a slot after GOAWAY, want none")
			}
			if got, want := e.closed(), test.closed; got != want {
				t.Fatalf("got closed %t, want %t", got, want)
			}
			e.finishAfterGoAway(begun, waits)
		}))
	}
}

// finishAfterGoAway ends the streams that are open. The connection closes after the last.
func (e *exchange) finishAfterGoAway(streams ...opened) {
	e.t.Helper()
	for _, v := range streams {
		if v.end() != "open" {
			continue
		}
		if v.status() == 0 {
			e.ok(v.id)
		}
		e.data(v.id, "go")
		if !e.answersPing() {
			e.t.Errorf("the client answers no PING after GOAWAY")
		}
		e.endData(v.id, "ne")
		e.wait()
		if got, want := v.body(), "gone"; got != want {
			e.t.Errorf("got body %q of a stream that goes on, want %q", got, want)
		}
		v.wantEnd(e.t, "regular", "for a stream that goes on")
	}
	if !e.closed() {
		e.t.Errorf("the connection is open after its last stream")
	}
}

// GOAWAY on a connection without streams closes it, once a slot that was taken before has been used in vain.
// (net/http's client waits for the server to do so.)
func TestFaultGoAwayIdle(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		if !e.client.reserve() {
			t.Fatal(errNoSlot)
		}
		e.goAway(0, http2.ErrCodeNo)
		e.wait()
		if e.free() {
			t.Errorf("got a slot after GOAWAY, want none")
		}
		if _, err := e.client.roundTrip(newRequest(t)); !errors.Is(err, errUnprocessed) { //nolint:bodyclose // an error
			t.Errorf("a request that had a slot: got %v, want %v", err, errUnprocessed)
		}
		if !e.closed() {
			t.Errorf("the connection is open")
		}
	})
}

// GOAWAY and then the end of the connection: what the server may have processed is not
// sent again, and the error of every stream names the GOAWAY's code.
func TestFaultGoAwayAndCut(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		begun := e.open("/a")
		waits := e.get("/b")
		id := e.request("/b")
		above := e.get("/c")
		e.request("/c")
		e.together(func() { e.goAway(id, http2.ErrCodeEnhanceYourCalm) })
		e.wait()
		e.cut()
		e.wait()
		for name, c := range map[string]*call{"begun": begun.call, "waiting": waits, "above the last id": above} {
			if got, want := c.end(), "error"; got != want {
				t.Errorf("got %s (%v) for the stream %s, want %s", got, c.failure(), name, want)
			}
			got, want := c.failure().Error(), "ENHANCE_YOUR_CALM"
			if !strings.Contains(got, want) && kind.name != reference.name { // it calls any GOAWAY a graceful shutdown
				t.Errorf("got error %q of the stream %s, want one with %q", got, name, want)
			}
		}
		e.checkUnprocessed(begun.call, false)
		e.checkUnprocessed(waits, false)
		e.checkUnprocessed(above, true)
	})
}

// RST_STREAM by the server before the header. Only REFUSED_STREAM says that the request
// was not processed.
func TestFaultRefusedStream(t *testing.T) {
	for code, unprocessed := range map[http2.ErrCode]bool{
		http2.ErrCodeRefusedStream: true, http2.ErrCodeNo: false, http2.ErrCodeCancel: false, http2.ErrCodeInternal: false,
		http2.ErrCodeProtocol: false, http2.ErrCodeEnhanceYourCalm: false, http2.ErrCodeHTTP11Required: false,
	} {
		t.Run(code.String(), eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			neighbour := e.open("/n")
			v := states["waiting"](e)
			e.reset(v.id, code)
			e.wait()
			v.wantEnd(t, "error", "in the end")
			e.checkUnprocessed(v.call, unprocessed)
			if got := e.resets(v.id); len(got) > 0 {
				t.Errorf("got RST_STREAM %v in answer to one", got)
			}
			e.checkNeighbour(&neighbour, false)
		}))
	}
}
