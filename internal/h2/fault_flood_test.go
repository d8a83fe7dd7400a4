// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// floodFrames is how many frames a flood has, and floodHeap how many bytes of heap the
// client may keep of it.
const (
	floodFrames = 8_000
	floodHeap   = 256 << 10
	bombHeap    = 3 << 20 // a header of the largest size, and its buffers
	floodPing   = 1 << 40 // the data of the first PING of a flood
)

// floods send frame i of a flood. id is a stream in the state that the flood is about.
var floods = map[string]struct {
	state string
	do    func(e *exchange, id uint32, i int)
}{
	"PING":                      {"open", func(e *exchange, _ uint32, i int) { e.ping(floodPing + uint64(i)) }},
	"PING ack":                  {"open", func(e *exchange, _ uint32, i int) { e.pong(pingData(floodPing + uint64(i))) }},
	"SETTINGS":                  {"open", func(e *exchange, _ uint32, _ int) { e.settings() }},
	"SETTINGS that change":      {"open", func(e *exchange, _ uint32, i int) { e.changeSettings(uint32(i)) }},
	"unknown SETTINGS":          {"open", func(e *exchange, _ uint32, i int) { e.settings(http2.Setting{ID: http2.SettingID(100 + i)}) }},
	"empty DATA":                {"open", func(e *exchange, id uint32, _ int) { e.data(id, "") }},
	"DATA of padding":           {"open", func(e *exchange, id uint32, _ int) { e.raw(http2.FrameData, 8, id, "\x01\x00") }},
	"WINDOW_UPDATE":             {"open", func(e *exchange, _ uint32, _ int) { e.window(0, 1) }},
	"WINDOW_UPDATE of a stream": {"open", func(e *exchange, id uint32, _ int) { e.window(id, 1) }},
	"PRIORITY": {"open", func(e *exchange, _ uint32, i int) {
		e.raw(http2.FramePriority, 0, uint32(2*i+1), "\x00\x00\x00\x00\x01")
	}},
	"unknown frames":          {"open", func(e *exchange, id uint32, _ int) { e.raw(0x42, 0, id, "frame") }},
	"RST_STREAM":              {"reset", func(e *exchange, id uint32, _ int) { e.reset(id, http2.ErrCodeInternal) }},
	"DATA of a closed stream": {"cancelled", func(e *exchange, id uint32, _ int) { e.data(id, "x") }},
	"HEADERS of a closed stream": {"cancelled", func(e *exchange, id uint32, i int) {
		e.header(id, ":status", "200", "field", strings.Repeat("x", i%64))
	}},
	"DATA of an ended stream": {"ended", func(e *exchange, id uint32, _ int) { e.data(id, "x") }},
	"HEADERS of an ended stream": {"ended", func(e *exchange, id uint32, i int) {
		e.header(id, ":status", "200", "field", strings.Repeat("x", i%64))
	}},
	"GOAWAY":        {"open", func(e *exchange, id uint32, _ int) { e.goAway(id, http2.ErrCodeNo) }},
	"informational": {"waiting", func(e *exchange, id uint32, _ int) { e.header(id, ":status", "103", "link", "x") }},
}

func (e *exchange) changeSettings(i uint32) {
	e.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame + i},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10 + i})
}

// A flood of valid frames is dealt with in constant memory, and the streams go on.
func TestFaultFlood(t *testing.T) {
	for name, flood := range floods {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			neighbour := e.open("/n")
			victim := states[flood.state](e)
			e.mute()
			e.wait()
			before := heap()
			for i := 0; i < floodFrames; {
				e.together(func() {
					for range 1000 {
						flood.do(e, victim.id, i)
						i++
					}
				})
				e.wait()
			}
			if got := heap() - before; got > floodHeap {
				t.Errorf("got %d bytes of heap more after %d frames, want at most %d", got, floodFrames, floodHeap)
			}
			e.checkNeighbour(&neighbour, false)
		}))
	}
}

// mute drops what the client answers to a flood.
func (s *script) mute() {
	s.drop = func(f frame) bool {
		switch f.Type {
		case http2.FramePing:
			return f.ping[2] != 0 // see floodPing
		case http2.FrameSettings, http2.FrameWindowUpdate:
			return true
		}
		return false
	}
}

// heap is what the heap holds after a garbage collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// A server that floods and does not read the answers is given up when a write has
// waited for 15 s. Until then the answers are not queued.
func TestFaultFloodUnread(t *testing.T) {
	forEachClient(t, func(t *testing.T, kind clientKind) {
		e := newSilentExchange(t, kind, 8<<10)
		e.accept()
		v := e.open("/v")
		e.wire.stall(true)
		before := heap()
		e.together(func() {
			for i := range uint64(floodFrames) {
				e.ping(floodPing + i)
			}
		})
		e.wait()
		e.out = bytes.Buffer{}
		if got := heap() - before - e.wire.unread(); got > floodHeap {
			t.Errorf("got %d bytes of heap more, want at most %d", got, floodHeap)
		}
		time.Sleep(31 * time.Second) // a write, and the one that net/http had buffered
		v.wantEnd(t, "error", "after the write's deadline")
		e.wire.stall(false)
		if !e.closed() {
			t.Errorf("the connection is open")
		}
	})
}

// headerBombs send a header that is too large. The stream fails, or the connection.
var headerBombs = map[string]func(e *exchange, id uint32){
	"a list above the limit": func(e *exchange, id uint32) {
		field := strings.Repeat("x", 8<<10)
		e.fragments(id, 1+e.setting(http2.SettingMaxHeaderListSize, 1<<20)/len(field), func(i int) []byte {
			return append([]byte{0, 1, byte('a' + i%26), 0x7f, 0x81, 0x3f}, field...)
		})
	},
	// One entry of the table, and a byte for each time that it is repeated.
	"an HPACK bomb": func(e *exchange, id uint32) {
		e.fragments(id, 64, func(i int) []byte {
			if i == 0 {
				return append([]byte{0x40, 1, 'a', 0x7f, 0x81, 0x1e}, strings.Repeat("x", 4000)...)
			}
			return []byte(strings.Repeat("\xbe", maxFrame))
		})
	},
	"a value of a megabyte in pieces": func(e *exchange, id uint32) {
		e.fragments(id, 66, func(i int) []byte {
			if i == 0 {
				return []byte{0, 1, 'a', 0x7f, 0x81, 0xff, 0x3f} // length 1048576
			}
			return []byte(strings.Repeat("x", maxFrame))
		})
	},
}

// fragments sends ":status 200" and n fragments in HEADERS and CONTINUATION.
func (e *exchange) fragments(id uint32, n int, fragment func(int) []byte) {
	e.raw(http2.FrameHeaders, 0, id, "\x88")
	for i := range n {
		e.raw(http2.FrameContinuation, 0, id, string(fragment(i)))
	}
	e.raw(http2.FrameContinuation, http2.FlagContinuationEndHeaders, id, "")
}

func TestFaultHeaderBomb(t *testing.T) {
	for name, bomb := range headerBombs {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			neighbour := e.open("/n")
			v := states["waiting"](e)
			before := heap()
			bomb(e, v.id)
			e.wait()
			if kind.name != reference.name { // net/http allows 10 MiB
				if got := heap() - before; got > bombHeap {
					t.Errorf("got %d bytes of heap more, want at most %d", got, bombHeap)
				}
				v.wantEnd(t, "error", "for a header of this size")
			}
			e.checkNeighbour(&neighbour, e.closed())
		}))
	}
}

// A header without an end: the connection ends, as its state is lost, and it does so
// after a bounded number of bytes; or after 45 s if there are none.
func TestFaultContinuationFlood(t *testing.T) {
	for name, fragment := range map[string]string{
		"of fields":     strings.Repeat("\x00\x01a\x01b", 3000),
		"of one string": strings.Repeat("x", maxFrame),
		"of nothing":    "",
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newExchange(t, kind)
			v := states["waiting"](e)
			e.raw(http2.FrameHeaders, 0, v.id, "\x88")
			if name == "of one string" {
				e.raw(http2.FrameContinuation, 0, v.id, "\x00\x7f\xff\xff\xff\x7f") // a very long name
			}
			before := heap()
			for n := 0; !e.closed(); n++ {
				if n > 3000 { // 48 MB
					t.Fatal("the connection is still open")
				}
				e.raw(http2.FrameContinuation, 0, v.id, fragment)
				if fragment == "" {
					time.Sleep(time.Second)
				}
				if got := heapEvery(n, 100) - before; got > 24<<20 {
					t.Fatalf("got %d bytes of heap more", got)
				}
			}
			synctest.Wait()
			v.wantEnd(t, "error", "in the end")
		}))
	}
}

// heapEvery is heap() in every n-th call and 0 otherwise.
func heapEvery(i, n int) int {
	if i%n != n-1 {
		return 0
	}
	return heap()
}
