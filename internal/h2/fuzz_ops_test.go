// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// faultyOps are the faults that end one stream, or the connection, in both clients.
//
// Left out are the frames that this package's client treats as RFC 9113 says and
// net/http's does not; stateTable and the tables of the faults name each of them:
//   - net/http ignores HEADERS, RST_STREAM and WINDOW_UPDATE of streams that were never
//     opened, SETTINGS_ENABLE_PUSH, an acknowledgement as the first SETTINGS, the fields
//     of HTTP/1 connections, and invalid lengths of bodies.
//   - It ends the connection for a second header, for trailers with pseudo fields, and
//     for DATA beyond the window of one stream. Ours ends that stream.
//   - It locks a mutex twice, and hangs, when WINDOW_UPDATE makes the window of a
//     stream too large.
//   - It keeps a connection without streams after GOAWAY, and takes no new streams after
//     RST_STREAM with PROTOCOL_ERROR.
var faultyOps = []op{
	{name: "cut", do: func(o *ops) { o.cut(); o.over = true }},
	{name: "half a frame", do: func(o *ops) {
		o.half(1+o.byte()%11, func() { o.settings(http2.Setting{ID: 0x99}) })
		o.cut()
		o.over = true
	}},
	{name: "go away", do: func(o *ops) {
		o.goAway(uint32(o.byte()%(2*maxOpStreams)), http2.ErrCode(o.byte()%14))
		o.cut()
		o.over = true
	}},
	{name: "silence", do: func(o *ops) { time.Sleep(50 * time.Second); o.over = true }},
	{name: "data of no stream", do: func(o *ops) { o.data(0, "x") }},
	{name: "data of an idle stream", do: func(o *ops) { o.data(1001, "x") }},
	{name: "ping of a stream", do: func(o *ops) { o.raw(http2.FramePing, 0, 1, "12345678") }},
	{name: "short ping", do: func(o *ops) { o.raw(http2.FramePing, 0, 0, "1234") }},
	{name: "short reset", stream: isAny, onStream: func(o *ops, s *opStream) { o.raw(http2.FrameRSTStream, 0, s.id, "123") }},
	{name: "continuation", stream: isAny, onStream: func(o *ops, s *opStream) { o.raw(http2.FrameContinuation, 4, s.id, "") }},
	{name: "push", stream: isAny, onStream: func(o *ops, s *opStream) { o.pushPromise(s.id, 2) }},
	{name: "large window", do: func(o *ops) { o.settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31}) }},
	{name: "connection window", do: func(o *ops) { o.window(0, 1<<31-1) }},
	{name: "window 0", stream: isBegun, onStream: func(o *ops, s *opStream) { o.window(s.id, 0); s.ended = true }},
	{name: "data before the header", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.data(s.id, "x"); s.ended = true }},
	{name: "trailers before the header", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.endHeader(s.id, "a", "b"); s.ended = true }},
	{name: "bad field", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.header(s.id, ":status", "200", "A", "b"); s.ended = true }},
	{name: "bad trailers", stream: isBegun, onStream: func(o *ops, s *opStream) { o.endHeader(s.id, "A", "b"); s.ended = true }},
	{name: "bad block", stream: isAny, onStream: func(o *ops, s *opStream) { o.raw(http2.FrameHeaders, 4, s.id, "\x80") }},
}

// describe describes all streams.
func (o *ops) describe() string {
	var b strings.Builder
	for _, s := range o.streams {
		end := s.end()
		if s.cancelled {
			end = "closed" // what a caller sees after Close is its own doing
		}
		fmt.Fprintf(&b, "[%d: %d, %d bytes %.8q, %s] ", s.id, s.status(), len(s.body()), s.body(), end)
	}
	fmt.Fprintf(&b, "connection closed: %t", o.closed())
	return b.String()
}
