// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// wholeResponse sends a header in two pieces, data, and a trailer, with SETTINGS and a
// PING before them.
func (e *exchange) wholeResponse(id uint32) {
	e.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
	e.settingsAck()
	e.ping(9)
	e.raw(http2.FrameHeaders, 0, id, "\x88")
	e.raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, id, "\x00\x01a\x01b")
	e.data(id, "first")
	e.raw(http2.FrameData, http2.FlagDataPadded, id, "\x02last\x00\x00")
	e.endHeader(id, "checksum", "x")
}

// cuts are the ways in which a connection ends.
var cuts = map[string]func(e *exchange){
	"FIN":     func(e *exchange) { e.cut() },
	"RST":     func(e *exchange) { e.wire.breakWith(syscall.ECONNRESET) },
	"silence": func(*exchange) { time.Sleep(46 * time.Second) }, // PING after 30 s, and 15 s for its answer
}

// A connection that ends, or falls silent, at any byte: the caller gets an error, and
// the regular end only with the last byte.
func TestFaultCutAtEveryByte(t *testing.T) {
	for name, end := range cuts {
		for _, kind := range clientKinds() {
			t.Run(name+"/"+kind.name, func(t *testing.T) {
				for n, whole := 0, false; !whole; n++ {
					synctest.Test(t, func(t *testing.T) { whole = cutAt(t, kind, n, end) })
				}
			})
		}
	}
}

// cutAt sends the first n bytes of a response, and reports whether that was all.
func cutAt(t *testing.T, kind clientKind, n int, end func(e *exchange)) (whole bool) {
	e := newSilentExchange(t, kind, 1<<20)
	e.settings()
	e.wait()
	c := e.get("/v")
	id := e.request("/v")
	e.half(n, func() {
		e.wholeResponse(id)
		whole = n == e.out.Len()
	})
	e.wait()
	end(e)
	e.wait()
	want := "error"
	if whole {
		want = "regular"
	}
	if got := c.end(); got != want {
		t.Fatalf("got %s (%v) after %d bytes, want %s", got, c.failure(), n, want)
	}
	if got, want := c.body(), "firstlast"; !strings.HasPrefix(want, got) || whole && got != want {
		t.Fatalf("got body %q after %d bytes, want %q or its beginning", got, n, want)
	}
	return whole
}

// A connection that ends before the server's SETTINGS are complete has had no slot, and
// reports that it takes no streams.
func TestFaultCutBeforeSettings(t *testing.T) {
	for name, end := range cuts {
		t.Run(name, func(t *testing.T) {
			for n := range 14 {
				forEachOwn(t, func(t *testing.T, kind clientKind) {
					e := newSilentExchange(t, kind, 1<<20)
					e.half(n, func() { e.settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100}) })
					e.wait()
					if e.free() {
						t.Errorf("got a slot after %d bytes of SETTINGS, want none", n)
					}
					end(e)
					if !e.closed() {
						t.Errorf("the connection is open after %d bytes", n)
					}
					if got := e.client.(*ownClient).events.goneEvents(); got != 1 {
						t.Errorf("got %d reports that the connection takes no streams, want 1", got)
					}
				})
			}
		})
	}
}

// A silent server gets a PING after 30 s. An answer keeps the connection; without one,
// or with another PING's, it ends 15 s later with all its streams.
func TestFaultSilence(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(e *exchange, data [8]byte)
		want   string
	}{
		"an answer":         {func(e *exchange, data [8]byte) { e.pong(data) }, "open"},
		"no answer":         {func(*exchange, [8]byte) {}, "error"},
		"a wrong answer":    {func(e *exchange, data [8]byte) { data[7]++; e.pong(data) }, "error"},
		"half an answer":    {func(e *exchange, data [8]byte) { e.half(16, func() { e.pong(data) }) }, "error"},
		"a PING, no answer": {func(e *exchange, data [8]byte) { e.ping(1) }, "error"},
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			streams := []opened{e.open("/a"), e.open("/b"), states["waiting"](e)}
			isPing := func(f frame) bool { return f.Type == http2.FramePing && !f.Flags.Has(http2.FlagPingAck) }
			time.Sleep(30*time.Second - time.Millisecond)
			if got := e.frames(isPing); len(got) != 0 {
				t.Fatalf("got a PING in less than 30 s")
			}
			time.Sleep(2 * time.Millisecond)
			test.answer(e, e.take("PING", isPing).ping)
			time.Sleep(15*time.Second - 3*time.Millisecond)
			e.wait()
			for _, s := range streams {
				s.wantEnd(t, "open", "within 15 s")
			}
			time.Sleep(2 * time.Millisecond)
			e.wait()
			for _, s := range streams {
				s.wantEnd(t, test.want, "after 15 s")
				if err := s.failure(); err != nil && kind.name != reference.name && !utilnet.IsTimeout(err) {
					t.Errorf("got error %v, want a time-out", err)
				}
			}
		}))
	}
}

// A server that never reads: a request, or a RST_STREAM, cannot be written. The connection ends after 15 s, and Close
// has waited no longer than that. A request that waits for its turn to write ends with its context. (net/http's client
// waits for a mutex here, so it cannot run in a bubble.)
func TestFaultServerDoesNotRead(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newSilentExchange(t, kind, 8<<10)
		e.accept()
		v, other := e.open("/v"), e.open("/o")
		e.wire.stall(true)
		begin := time.Now()
		waiting := e.getAs("/"+strings.Repeat("x", 20<<10), readAll) // fills the pipe
		turn := e.get("/turn")
		e.wait()
		time.Sleep(time.Second)
		turn.cancel()
		<-turn.done
		if took := time.Since(begin); took > time.Second || !errors.Is(turn.failure(), context.Canceled) {
			t.Errorf("got %v after %v for the request without a turn, want the end of its context", turn.failure(), took)
		}
		v.close()
		time.Sleep(15*time.Second - time.Since(begin))
		e.wait()
		for name, c := range map[string]*call{"with a response": other.call, "whose request is not written": waiting} {
			if got, want := c.end(), "error"; got != want {
				t.Errorf("got %s (%v) for the stream %s, want %s", got, c.failure(), name, want)
			}
		}
		if err := waiting.failure(); !errors.Is(err, errUnprocessed) || !utilnet.IsTimeout(err) {
			t.Errorf("got %v for the request that is not written, want a time-out that says so", err)
		}
	})
}
