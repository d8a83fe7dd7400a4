// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// fault is something that a server does to one stream of a connection with two.
type fault struct {
	do   func(e *exchange, id uint32)
	want string // in the words of stateTable
}

// runFaults runs each fault with every client. begin brings the stream into its state.
func runFaults(t *testing.T, begin func(*exchange) opened, faults map[string]fault) {
	t.Helper()
	for name, f := range faults {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			if kind.expects(f.want) == "deadlock" {
				t.Skip("this client locks a mutex twice")
			}
			e := newExchange(t, kind)
			neighbour := e.open("/n")
			victim := begin(e)
			e.checkOutcome(&victim, &neighbour, f.want, func() { f.do(e, victim.id) })
		}))
	}
}

// Frames whose length is wrong (RFC 9113, sections 4.2 and 6), or whose padding is.
func TestFaultFrameSize(t *testing.T) {
	raw := func(typ http2.FrameType, flags http2.Flags, payload string) func(*exchange, uint32) {
		return func(e *exchange, id uint32) { e.raw(typ, flags, id, payload) }
	}
	onConnection := func(typ http2.FrameType, flags http2.Flags, payload string) func(*exchange, uint32) {
		return func(e *exchange, _ uint32) { e.raw(typ, flags, 0, payload) }
	}
	tooLong := func(typ http2.FrameType) func(*exchange, uint32) {
		return func(e *exchange, id uint32) { e.raw(typ, 0, id, strings.Repeat("\x00", e.announcedFrameSize()+1)) }
	}
	runFaults(t, states["open"], map[string]fault{
		"SETTINGS of 5 bytes":                  {onConnection(http2.FrameSettings, 0, "12345"), "C.FRAME_SIZE"},
		"SETTINGS ack with a byte":             {onConnection(http2.FrameSettings, http2.FlagSettingsAck, "123456"), "C.FRAME_SIZE"},
		"PING of 7 bytes":                      {onConnection(http2.FramePing, 0, "1234567"), "C.FRAME_SIZE"},
		"PING of 9 bytes":                      {onConnection(http2.FramePing, 0, "123456789"), "C.FRAME_SIZE"},
		"GOAWAY of 7 bytes":                    {onConnection(http2.FrameGoAway, 0, "1234567"), "C.FRAME_SIZE"},
		"WINDOW_UPDATE of 3 bytes":             {onConnection(http2.FrameWindowUpdate, 0, "123"), "C.FRAME_SIZE"},
		"WINDOW_UPDATE of a stream of 5 bytes": {raw(http2.FrameWindowUpdate, 0, "12345"), "C.FRAME_SIZE"},
		"RST_STREAM of 3 bytes":                {raw(http2.FrameRSTStream, 0, "123"), "C.FRAME_SIZE"},
		"RST_STREAM of 5 bytes":                {raw(http2.FrameRSTStream, 0, "12345"), "C.FRAME_SIZE"},
		// The RFC asks for an error of the stream only.
		"PRIORITY of 4 bytes": {raw(http2.FramePriority, 0, "1234"), "C.FRAME_SIZE"},

		"DATA above MAX_FRAME_SIZE":    {tooLong(http2.FrameData), "C.FRAME_SIZE"},
		"HEADERS above MAX_FRAME_SIZE": {tooLong(http2.FrameHeaders), "C.FRAME_SIZE"},
		"unknown above MAX_FRAME_SIZE": {tooLong(0x42), "C.FRAME_SIZE"},
		"DATA of the largest size": {func(e *exchange, id uint32) {
			e.raw(http2.FrameData, 0, id, strings.Repeat("x", e.announcedFrameSize()))
		}, "ok"},

		"DATA with padding":          {raw(http2.FrameData, http2.FlagDataPadded, "\x02a\x00\x00"), "ok"},
		"DATA of padding":            {raw(http2.FrameData, http2.FlagDataPadded, "\x02\x00\x00"), "-"},
		"DATA with too much padding": {raw(http2.FrameData, http2.FlagDataPadded, "\x03\x00\x00"), "C.PROTOCOL"},
		// The framer reports the frames that are too short for their fields without a code.
		"DATA without pad length": {raw(http2.FrameData, http2.FlagDataPadded, ""), "C"},
		"HEADERS with too much padding": {
			raw(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, "\x03\x00"), "C.PROTOCOL/S.PROTOCOL"},
		"HEADERS without pad length": {
			raw(http2.FrameHeaders, http2.FlagHeadersPadded|http2.FlagHeadersEndHeaders, ""), "C"},
		"HEADERS without its priority": {
			raw(http2.FrameHeaders, http2.FlagHeadersPriority|http2.FlagHeadersEndHeaders, "\x00\x00"), "C"},
	})
}

// What a client must accept although it is unusual.
func TestFaultFrameOddities(t *testing.T) {
	runFaults(t, states["open"], map[string]fault{
		"RST_STREAM with an unknown code": {func(e *exchange, id uint32) { e.reset(id, 0xfefe) }, "err"},
		"RST_STREAM without an error":     {func(e *exchange, id uint32) { e.reset(id, http2.ErrCodeNo) }, "err"},
		"PING ack for no PING":            {func(e *exchange, _ uint32) { e.pong(pingData(77)) }, "-"},
		"SETTINGS without a setting":      {func(e *exchange, _ uint32) { e.settings() }, "-"},
		"undefined flags": {func(e *exchange, id uint32) {
			e.raw(http2.FrameData, 0xff&^http2.FlagDataEndStream&^http2.FlagDataPadded, id, "x")
		}, "ok"},
		"the reserved bit of the stream id": {func(e *exchange, id uint32) {
			e.bytes([]byte{0, 0, 1, 0, 0, 0x80, 0, 0, byte(id), 'x'})
		}, "ok"},
		"the reserved bit of an increment": {func(e *exchange, id uint32) {
			e.raw(http2.FrameWindowUpdate, 0, id, "\x80\x00\x00\x01")
		}, "-"},
		"a byte at a time": {func(e *exchange, id uint32) {
			for _, b := range []byte{0, 0, 2, 0, 0, 0, 0, 0, byte(id), 'x', 'y'} {
				e.bytes([]byte{b})
				e.wait()
			}
		}, "ok"},
	})
}

// HEADERS with padding and priority is a regular response.
func TestFaultPaddedHeaders(t *testing.T) {
	runFaults(t, states["waiting"], map[string]fault{
		"padding and priority": {func(e *exchange, id uint32) {
			block := e.block(":status", "200")
			e.send(func() error {
				return e.framer.WriteHeaders(http2.HeadersFrameParam{
					StreamID: id, BlockFragment: block, EndHeaders: true, PadLength: 9,
					Priority: http2.PriorityParam{StreamDep: 3, Weight: 5, Exclusive: true},
				})
			})
		}, "ok"},
		"a stream that depends on itself": {func(e *exchange, id uint32) {
			block := e.block(":status", "200")
			e.send(func() error {
				return e.framer.WriteHeaders(http2.HeadersFrameParam{
					StreamID: id, BlockFragment: block, EndHeaders: true, Priority: http2.PriorityParam{StreamDep: id, Weight: 1},
				})
			})
		}, "ok"},
	})
}

// What may come before the SETTINGS of the server: nothing (RFC 9113, section 3.4).
func TestFaultFirstFrame(t *testing.T) {
	for name, first := range map[string]struct {
		do   func(*exchange)
		want string
	}{
		"PING":          {func(e *exchange) { e.ping(1) }, "C.PROTOCOL"},
		"SETTINGS ack":  {func(e *exchange) { e.settingsAck() }, "C.PROTOCOL/-"},
		"WINDOW_UPDATE": {func(e *exchange) { e.window(0, 1) }, "C.PROTOCOL"},
		"GOAWAY":        {func(e *exchange) { e.goAway(0, http2.ErrCodeNo) }, "C.PROTOCOL"},
		"HEADERS":       {func(e *exchange) { e.ok(1) }, "C.PROTOCOL"},
		"HTTP/1.1":      {func(e *exchange) { e.bytes([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "C.FRAME_SIZE"},
		"zeros":         {func(e *exchange) { e.bytes(make([]byte, 64)) }, "C.PROTOCOL"},
		"nothing":       {func(e *exchange) { e.cut() }, "C"},
	} {
		t.Run(name, eachClient(func(t *testing.T, kind clientKind) {
			e := newSilentExchange(t, kind, 1<<20)
			victim := opened{e.get("/v"), 1}
			e.checkOutcome(&victim, nil, first.want, func() { first.do(e) })
		}))
	}
}
