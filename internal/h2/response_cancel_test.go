// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// The end of a request's context ends the request at every point, with the context's
// error. The server gets RST_STREAM if it had the request, and the neighbour goes on.
func TestFaultContextEnds(t *testing.T) {
	for name, test := range map[string]struct {
		respond func(e *exchange, id uint32)
		want    string
		resets  int
	}{
		"before the header": {func(*exchange, uint32) {}, "error", 1},
		"after 1xx":         {func(e *exchange, id uint32) { e.header(id, ":status", "103") }, "error", 1},
		"in half a header":  {func(e *exchange, id uint32) { e.half(12, func() { e.ok(id) }) }, "error", 1},
		"after the header":  {func(e *exchange, id uint32) { e.ok(id) }, "error", 1},
		"in the body":       {func(e *exchange, id uint32) { e.ok(id); e.data(id, "text") }, "error", 1},
		"in half a frame":   {func(e *exchange, id uint32) { e.ok(id); e.half(12, func() { e.data(id, "text") }) }, "error", 1},
		"after the end":     {func(e *exchange, id uint32) { e.ok(id); e.endData(id, "text") }, "regular", 0},
		"after RST_STREAM":  {func(e *exchange, id uint32) { e.ok(id); e.reset(id, 2) }, "error", 0},
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			v := states["waiting"](e)
			test.respond(e, v.id)
			e.wait()
			v.cancel()
			e.wait()
			v.wantEnd(t, test.want, "in the end")
			if test.resets > 0 && !errors.Is(v.failure(), context.Canceled) {
				t.Errorf("got error %v, want %v", v.failure(), context.Canceled)
			}
			if got, want := len(e.resets(v.id)), test.resets; got != want {
				t.Errorf("got %d RST_STREAM, want %d", got, want)
			}
		}))
	}
}

// A context that has ended before sends nothing.
func TestFaultContextEndedBefore(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://server/v", http.NoBody)
		check(t, err)
		for range 20 { // whatever of the two it waits for comes first
			if !e.client.reserve() {
				t.Fatal(errNoSlot)
			}
			if _, err := e.client.roundTrip(req); !errors.Is(err, context.Canceled) {
				t.Errorf("got error %v, want %v", err, context.Canceled)
			}
		}
		if got := e.frames(func(f frame) bool { return f.Type == http2.FrameHeaders }); len(got) > 0 {
			t.Errorf("got %d requests, want none", len(got))
		}
		v := e.open("/after")
		e.checkNeighbour(&v, false)
	})
}

// After Detach only Close ends a stream, not the context of its request.
func TestFaultUntied(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		v := e.open("/v")
		v.resp.Body.(Body).Detach()
		v.cancel()
		e.checkNeighbour(&v, false)
		v.close()
		if got := e.resets(v.id); len(got) != 1 || got[0] != http2.ErrCodeCancel {
			t.Errorf("got RST_STREAM %v, want one with CANCEL", got)
		}
	})
}

// A server that sends often gets no PING, and one that cannot be written to is given up
// by the PING's deadline.
func TestFaultHealthOfBusyConnection(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		v := e.open("/v")
		for range 20 {
			time.Sleep(29 * time.Second)
			e.data(v.id, "x")
			e.wait()
		}
		if got := len(e.pingsSent()); got != 0 {
			t.Errorf("got %d PINGs on a busy connection, want none", got)
		}
		e.wire.stall(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		v.wantEnd(t, "error", "in the end")
	})
}

// endsAtItsTurn is a context that ends while a request has the right to write.
type endsAtItsTurn struct {
	context.Context
	conn *conn
}

func (c endsAtItsTurn) Err() error {
	if len(c.conn.writing) == 0 {
		return nil
	}
	return context.Canceled
}

// A request whose context ends as it gets its turn to write gives the turn back.
func TestFaultContextEndsAtItsTurn(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		req, err := http.NewRequestWithContext(endsAtItsTurn{t.Context(), e.conn()}, http.MethodGet, "http://server/v", http.NoBody)
		check(t, err)
		if !e.client.reserve() {
			t.Fatal(errNoSlot)
		}
		if _, err := e.client.roundTrip(req); !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		e.checkNeighbour(&neighbour, false)
	})
}
