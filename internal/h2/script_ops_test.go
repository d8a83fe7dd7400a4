// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// ops performs a script that is given as bytes, so that a fuzzer or a generator of
// random numbers can write it. Each step takes an operation and its arguments; what is
// missing at the end is 0.
type ops struct {
	*exchange
	bytes   []byte
	streams []*opStream
	trace   []string // the operations so far, for failures
	over    bool     // no operation has an effect any more
}

// opStream is a request of an op script, and how far the server is with its response.
type opStream struct {
	opened
	begun, ended, cancelled bool
}

// maxOpStreams and maxOps bound what one script does.
const (
	maxOpStreams = 6
	maxOps       = 200
)

func (o *ops) byte() int {
	if len(o.bytes) == 0 {
		return 0
	}
	b := o.bytes[0]
	o.bytes = o.bytes[1:]
	return int(b)
}

func (o *ops) number() uint32 { return uint32(o.byte())<<8 | uint32(o.byte()) }

func (o *ops) text(n int) string {
	n = min(n, len(o.bytes))
	text := string(o.bytes[:n])
	o.bytes = o.bytes[n:]
	return text
}

// run performs the operations of a table until the script ends.
func (o *ops) run(table []op) {
	for n := 0; len(o.bytes) > 0 && n < maxOps && !o.over; n++ {
		p := table[o.byte()%len(table)]
		if p.stream == nil {
			o.trace = append(o.trace, p.name)
			p.do(o)
		} else if s := o.pick(p.stream); s != nil {
			o.trace = append(o.trace, fmt.Sprintf("%s %d", p.name, s.id))
			p.onStream(o, s)
		}
		o.wait()
	}
}

// pick returns one of the streams that match, or nil.
func (o *ops) pick(match func(*opStream) bool) *opStream {
	var found []*opStream
	for _, s := range o.streams {
		if match(s) {
			found = append(found, s)
		}
	}
	if i := o.byte(); len(found) > 0 {
		return found[i%len(found)]
	}
	return nil
}

// op is an operation: of the connection (do), or of one of the streams that match.
type op struct {
	name     string
	do       func(*ops)
	stream   func(*opStream) bool
	onStream func(*ops, *opStream)
}

func isAny(*opStream) bool       { return true }
func isWaiting(s *opStream) bool { return !s.begun && !s.ended }
func isBegun(s *opStream) bool   { return s.begun && !s.ended }

// validOps is what a server may do that keeps to the protocol, and what a caller does.
var validOps = []op{
	{name: "get", do: func(o *ops) { o.begin() }},
	{name: "get", do: func(o *ops) { o.begin() }},
	{name: "header", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.ok(s.id); s.begun = true }},
	{name: "header", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.ok(s.id); s.begun = true }},
	{name: "status", stream: isWaiting, onStream: func(o *ops, s *opStream) {
		o.header(s.id, ":status", fmt.Sprint(200+o.byte()*400/256), "a", strings.Repeat("x", o.byte()))
		s.begun = true
	}},
	{name: "header in pieces", stream: isWaiting, onStream: func(o *ops, s *opStream) {
		o.pieces(s.id, false, 1+o.byte()%4, ":status", "200", "b", o.printable())
		s.begun = true
	}},
	{name: "header that ends", stream: isWaiting, onStream: func(o *ops, s *opStream) {
		o.endHeader(s.id, ":status", "404")
		s.begun, s.ended = true, true
	}},
	{name: "informational", stream: isWaiting, onStream: func(o *ops, s *opStream) { o.header(s.id, ":status", "103") }},
	{name: "data", stream: isBegun, onStream: func(o *ops, s *opStream) { o.data(s.id, o.letters()) }},
	{name: "data", stream: isBegun, onStream: func(o *ops, s *opStream) { o.data(s.id, o.letters()) }},
	{name: "padded data", stream: isBegun, onStream: func(o *ops, s *opStream) { o.padded(s.id, false, true, "padded") }},
	{name: "empty data", stream: isBegun, onStream: func(o *ops, s *opStream) { o.data(s.id, "") }},
	{name: "end", stream: isBegun, onStream: func(o *ops, s *opStream) { o.endData(s.id, o.letters()); s.ended = true }},
	{name: "trailers", stream: isBegun, onStream: func(o *ops, s *opStream) {
		o.pieces(s.id, true, 1+o.byte()%3, "checksum", o.printable())
		s.ended = true
	}},
	{name: "reset", stream: func(s *opStream) bool { return !s.ended }, onStream: func(o *ops, s *opStream) {
		o.reset(s.id, http2.ErrCodeInternal+http2.ErrCode(o.byte()%14))
		s.ended = true
	}},
	{name: "close", stream: isAny, onStream: func(o *ops, s *opStream) { s.close(); s.cancelled = true }},
	{name: "ping", do: func(o *ops) { o.ping(floodPing + uint64(o.byte())) }},
	{name: "pong", do: func(o *ops) { o.pongAll() }},
	{name: "settings", do: func(o *ops) { o.validSetting() }},
	{name: "window", do: func(o *ops) { o.window(0, 1+o.number()) }},
	{name: "stream window", stream: func(s *opStream) bool { return !s.ended }, onStream: func(o *ops, s *opStream) {
		o.window(s.id, 1+o.number())
	}},
	{name: "priority", stream: isAny, onStream: func(o *ops, s *opStream) {
		o.raw(http2.FramePriority, 0, s.id, "\x00\x00\x00\x00\x01")
	}},
	{name: "unknown frame", do: func(o *ops) {
		o.raw(http2.FrameType(0x20+o.byte()%64), http2.Flags(o.byte()), uint32(o.byte()), o.text(9))
	}},
	{name: "time passes", do: func(o *ops) { time.Sleep(time.Duration(o.byte()%12) * time.Second); o.pongAll() }},
}

// begin sends a request, if there is a slot. In both clients, slots of streams that were
// reset are free after a PING.
func (o *ops) begin() {
	for range 2 { // the answer to one PING may be followed by another
		o.pongAll()
		o.wait()
	}
	if len(o.streams) == maxOpStreams || !o.free() {
		return
	}
	path := fmt.Sprintf("/%d", len(o.streams))
	c := o.get(path)
	if o.wait(); c.end() == "error" {
		return // its header is larger than the server allows
	}
	o.streams = append(o.streams, &opStream{opened: opened{c, o.request(path)}})
}

func (o *ops) validSetting() {
	all := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: uint32(o.byte()) % 8},
		{ID: http2.SettingInitialWindowSize, Val: o.number()},
		{ID: http2.SettingMaxFrameSize, Val: maxFrame + o.number()},
		// Always the same, as hpack's decoder refuses the two updates of a table that
		// shrinks and grows (RFC 7541, section 4.2, asks for them).
		{ID: http2.SettingHeaderTableSize, Val: 1000},
		{ID: 0x99, Val: 7},
	}
	i := o.byte() % len(all)
	o.settings(all[:i+1]...)
}

// letters is a text whose length depends on the script.
func (o *ops) letters() string { return strings.Repeat("abcdefgh", int(o.number())/32) }

func (o *ops) printable() string { return strings.Repeat("v", o.byte()) }
