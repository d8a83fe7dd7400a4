// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// pingsSent returns the PINGs that the client has sent itself.
func (e *exchange) pingsSent() []frame {
	return e.frames(func(f frame) bool { return f.Type == http2.FramePing && !f.Flags.Has(http2.FlagPingAck) })
}

// pongAll answers the client's PINGs.
func (e *exchange) pongAll() {
	for _, f := range e.pingsSent() {
		e.pong(f.ping)
	}
	e.wait()
}

// A stream that the client has reset keeps its slot until the server has answered a
// PING that came after the RST_STREAM: until then the server may count it. One PING is
// under way at a time. (net/http's client does so only if the stream got no header.)
func TestFaultRapidReset(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3})
		streams := []opened{e.open("/a"), e.open("/b"), e.open("/c")}
		wantFree := func(want bool, when string) {
			t.Helper()
			e.wait()
			if got := e.free(); got != want {
				t.Errorf("got slot %t %s, want %t", got, when, want)
			}
		}
		e.wantEvents("slotFreed")
		streams[0].close()
		wantFree(false, "after RST_STREAM")
		first := e.pingsSent()
		if got, want := len(first), 1; got != want {
			t.Fatalf("got %d PINGs after RST_STREAM, want %d", got, want)
		}
		streams[1].close()
		wantFree(false, "after the second RST_STREAM")
		if got, want := len(e.pingsSent()), 1; got != want {
			t.Fatalf("got %d PINGs at a time, want %d", got, want)
		}
		e.pong(pingData(12345))
		wantFree(false, "after the answer to no PING")
		e.wantEvents() // whoever waits for a slot gets none of these
		e.pong(first[0].ping)
		e.wantEvents("slotFreed")
		e.wantSlots(1, "after the answer to a PING that came before the second RST_STREAM")
		second := e.pingsSent()
		if got, want := len(second), 2; got != want {
			t.Fatalf("got %d PINGs in all, want %d", got, want)
		}
		e.pong(second[1].ping)
		e.wantSlots(2, "after the answer to the second PING")
		e.checkNeighbour(&streams[2], false)
	})
}

// wantSlots checks how many slots are free, and leaves them free.
func (e *exchange) wantSlots(want int, when string) {
	e.t.Helper()
	e.wait()
	got := 0
	for e.client.reserve() {
		got++
	}
	for range got {
		e.client.release()
	}
	if got != want {
		e.t.Errorf("got %d free slots %s, want %d", got, when, want)
	}
}

// A PING frees only the slots of streams whose RST_STREAM came before it, not of those
// that still waited to write theirs.
func TestFaultRapidResetsThatWait(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newSilentExchange(t, kind, 8<<10)
		e.accept(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 3})
		e.wait()
		streams := []opened{e.open("/a"), e.open("/b")}
		e.wire.stall(true)
		e.getAs("/"+strings.Repeat("x", 20<<10), readAll) // its write blocks
		e.wait()
		for _, s := range streams {
			go s.close()
		}
		e.wait()
		e.wire.stall(false)
		e.wait()
		first := e.pingsSent()
		if got, want := len(first), 1; got != want {
			t.Fatalf("got %d PINGs, want %d", got, want)
		}
		e.wantSlots(0, "before an answer")
		e.pong(first[0].ping)
		e.wantSlots(1, "after the answer to the PING between two RST_STREAM")
	})
}

// The server counts a stream as open until it handles the RST_STREAM, which it does
// late: when it answers the PING behind it. It never sees more streams than it allows.
func TestFaultServerThatCountsStreams(t *testing.T) {
	const limit, steps = 5, 400
	seed := uint64(time.Now().UnixNano())
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		e := newExchange(t, kind, http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: limit})
		server := countingServer{exchange: e, open: map[uint32]bool{}}
		var streams []*call
		opened := 0
		for range steps {
			switch k := random.IntN(4); {
			case k < 2 && e.free():
				opened++
				streams = append(streams, e.get("/"+strconv.Itoa(opened)))
			case k == 2 && len(streams) > 0:
				i := random.IntN(len(streams))
				streams[i].close()
				streams = append(streams[:i], streams[i+1:]...)
			case k == 3:
				server.handleUntilPing()
			}
			e.wait()
			if got := server.arrivedOrOpen(); got > limit {
				t.Fatalf("got %d streams that the server may count, want at most %d", got, limit)
			}
		}
		if opened <= limit {
			t.Errorf("got %d streams in all, want more than %d", opened, limit)
		}
	})
}

// countingServer handles the client's frames later than they arrive.
type countingServer struct {
	*exchange
	open    map[uint32]bool // requests handled, and no RST_STREAM yet
	handled int             // how many frames of log were handled
}

// handleUntilPing handles frames up to the next PING, and answers it.
func (s *countingServer) handleUntilPing() {
	frames := s.frames(func(frame) bool { return true })
	for ; s.handled < len(frames); s.handled++ {
		switch f := frames[s.handled]; f.Type {
		case http2.FrameHeaders:
			s.open[f.StreamID] = true
			s.ok(f.StreamID)
		case http2.FrameRSTStream:
			delete(s.open, f.StreamID)
		case http2.FramePing:
			s.handled++
			s.pong(f.ping)
			return
		}
	}
}

// arrivedOrOpen is how many streams the server counts if it handles all requests
// before any RST_STREAM.
func (s *countingServer) arrivedOrOpen() int {
	n := len(s.open)
	for _, f := range s.frames(func(frame) bool { return true })[s.handled:] {
		if f.Type == http2.FrameHeaders {
			n++
		}
	}
	return n
}

// What comes for a stream after the client has closed it is dropped, its Receiver hears
// of nothing, and one RST_STREAM was sent.
func TestFaultFramesAfterClose(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		v := e.open("/v")
		e.data(v.id, "before")
		e.wait()
		v.close()
		v.close()
		e.data(v.id, "after")
		e.endHeader(v.id, "trailer", "x")
		e.reset(v.id, http2.ErrCodeNo)
		e.checkNeighbour(&neighbour, false)
		if got, want := v.body(), "before"; got != want {
			t.Errorf("got body %q, want %q", got, want)
		}
		if got := v.late; got != 0 {
			t.Errorf("got %d calls of the Receiver after Close, want none", got)
		}
		if got := e.resets(v.id); len(got) != 1 || got[0] != http2.ErrCodeCancel {
			t.Errorf("got RST_STREAM %v, want one with CANCEL", got)
		}
	})
}

// Closing a stream that has ended sends nothing.
func TestFaultCloseAfterEnd(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		for _, state := range []string{"ended", "reset"} {
			v := states[state](e)
			e.wait()
			v.close()
			e.checkNeighbour(&neighbour, false)
			if got := e.resets(v.id); len(got) != 0 {
				t.Errorf("got RST_STREAM %v for a stream that has %s, want none", got, state)
			}
		}
		if got := e.pingsSent(); len(got) != 0 {
			t.Errorf("got %d PINGs, want none", len(got))
		}
	})
}
