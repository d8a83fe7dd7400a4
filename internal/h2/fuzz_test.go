// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// FuzzServerBytes sends arbitrary bytes on a connection with a stream that a Receiver
// takes, one that is read, one that nobody reads, and one without a header. Then the
// server is silent, so that everything has to end within the time of a health check.
func FuzzServerBytes(f *testing.F) {
	for _, seed := range seedBytes() {
		f.Add(seed)
	}
	f.Fuzz(checkServerBytes)
}

func checkServerBytes(t *testing.T, b []byte) {
	synctest.Test(t, func(t *testing.T) {
		e := newExchange(t, ownKinds()[0])
		streams := []opened{
			e.openAs("/parked", receive), e.openAs("/read", readAll), e.openAs("/held", hold), states["waiting"](e),
		}
		e.bytes(b)
		e.wait()
		if e.free() != e.takesStreams() {
			t.Errorf("got slot %t of a connection with 4 of 1000 streams, want %t", e.free(), e.takesStreams())
		}
		for i, s := range streams {
			if got, most := len(s.body()), len(b); got > most {
				t.Errorf("got %d bytes for stream %d of %d bytes from the server", got, i, most)
			}
		}
		time.Sleep(50 * time.Second)
		e.checkAllEnded(streams...)
	})
}

// takesStreams reports whether a connection should have a slot: it is open, got no
// GOAWAY, no stream was reset for an error of the protocol, no frame came after the end
// of its stream, and its limit is as good as none.
func (e *exchange) takesStreams() bool {
	c := e.client.(*ownClient)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && c.goAway == nil && !c.poisoned && !c.strayed && c.usedLocked() < int(c.maxStreams)
}

// checkAllEnded checks that the connection is closed, and that all streams have ended.
func (e *exchange) checkAllEnded(streams ...opened) {
	e.t.Helper()
	if !e.closed() {
		e.t.Errorf("the connection is open after 50 s of silence")
	}
	for _, s := range streams {
		if s.end() == "open" && s.mode != hold && !s.closed {
			e.t.Errorf("stream %d is open on a closed connection", s.id)
		}
	}
}

// FuzzFrames performs a script of regular and faulty frames, and of what the caller
// does meanwhile, with a Receiver and with Read. Both see the same.
func FuzzFrames(f *testing.F) {
	for i := range byte(60) {
		f.Add(bytes.Repeat([]byte{0, i, 2, 0, 8, 0, 9, i}, 6))
		f.Add(bytes.Repeat([]byte{0, 0, 0, 2, 0, 3, 0, i, 0, 1, 200, 15, 1, 17, 12, 0}, 3))
	}
	f.Fuzz(checkFrames)
}

func checkFrames(t *testing.T, b []byte) {
	table := append(append(append([]op{}, validOps...), faultyOps...), brokenOps...)
	var results [2]string
	for i, kind := range ownKinds() {
		synctest.Test(t, func(t *testing.T) {
			o := &ops{exchange: newExchange(t, kind), bytes: b}
			o.run(table)
			results[i] = o.describe()
			time.Sleep(50 * time.Second)
			var streams []opened
			for _, s := range o.streams {
				streams = append(streams, s.opened)
			}
			o.checkAllEnded(streams...)
		})
	}
	if results[0] != results[1] {
		t.Errorf("Read and Receive differ:\n%s\n%s", results[0], results[1])
	}
}

// FuzzDifferential performs a script of regular frames, and of one kind of fault, with
// this package's client and that of net/http. Both callers see the same.
func FuzzDifferential(f *testing.F) {
	for i := range byte(40) {
		f.Add(append([]byte{i}, bytes.Repeat([]byte{0, i, 2, 0, 8, 0, 9, i, i * 3}, 8)...))
	}
	for i := range byte(100) {
		script := make([]byte, 400)
		_, _ = rand.NewChaCha8([32]byte{i}).Read(script)
		f.Add(script)
	}
	f.Fuzz(checkDifferential)
}

func checkDifferential(t *testing.T, b []byte) {
	if len(b) == 0 {
		return
	}
	table := validOps
	if i := int(b[0]) % (2 * len(faultyOps)); i < len(faultyOps) {
		table = append(table[:len(table):len(table)], faultyOps[i])
	}
	results := map[string]string{}
	for _, kind := range clientKinds() {
		synctest.Test(t, func(t *testing.T) {
			o := &ops{exchange: newExchange(t, kind), bytes: b[1:min(len(b), 500)]}
			o.run(table)
			results[kind.name] = o.describe()
		})
	}
	for _, kind := range ownKinds() {
		if got, want := results[kind.name], results[reference.name]; got != want {
			t.Errorf("bodies taken by %s:\ngot  %s\nwant %s", kind.name, got, want)
		}
	}
}

// brokenOps are faults that both ways of reading treat alike, and net/http does not.
var brokenOps = []op{
	{name: "any frame", do: func(o *ops) {
		o.raw(http2.FrameType(o.byte()%11), http2.Flags(o.byte()), uint32(o.byte()%16), o.text(o.byte()))
	}},
	{name: "header again", stream: isAny, onStream: func(o *ops, s *opStream) { o.ok(s.id) }},
	{name: "data again", stream: isAny, onStream: func(o *ops, s *opStream) { o.data(s.id, "again") }},
	{name: "end again", stream: isAny, onStream: func(o *ops, s *opStream) { o.endData(s.id, "again") }},
	{name: "large stream window", stream: isAny, onStream: func(o *ops, s *opStream) { o.window(s.id, 1<<31-1) }},
	{name: "any setting", do: func(o *ops) {
		o.settings(http2.Setting{ID: http2.SettingID(o.byte() % 10), Val: o.number() << o.byte()})
	}},
	{name: "wrong length", stream: isWaiting, onStream: func(o *ops, s *opStream) {
		o.header(s.id, ":status", "200", "content-length", "10")
		s.begun = true
	}},
	{name: "go away, and on", do: func(o *ops) { o.goAway(uint32(o.byte()), http2.ErrCode(o.byte())) }},
	{name: "many frames", stream: isAny, onStream: func(o *ops, s *opStream) {
		o.together(func() {
			o.data(s.id, "one")
			o.ping(floodPing)
			o.endData(s.id, "two")
			o.data(s.id, "three")
		})
	}},
}

// seedBytes are the bytes of regular and faulty answers to the requests of
// FuzzServerBytes, on streams 1, 3, 5 and 7.
func seedBytes() (seeds [][]byte) {
	s := newEncoder()
	s.holding = true
	e := &exchange{script: s}
	take := func() {
		seeds = append(seeds, bytes.Clone(s.out.Bytes()))
		s.out.Reset()
	}
	for _, id := range []uint32{1, 3, 5, 7} {
		e.wholeResponse(id)
		take()
		for _, send := range stateFrames {
			send(e, id)
			take()
			e.wholeResponse(id) // and one frame too many
			send(e, id)
			take()
		}
	}
	for _, send := range headerBombs {
		send(e, 7)
		seeds = append(seeds, bytes.Clone(s.out.Bytes()[:min(s.out.Len(), 1<<10)]))
		s.out.Reset()
	}
	return seeds
}
