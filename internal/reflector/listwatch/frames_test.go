// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
)

// A frame that exceeds the window of the stream comes whole: the server gets credit while
// the frame is incomplete. While it waits for TryNext, the server gets none: at most
// one frame and one window are in memory.
func TestParkedStreamFlowControl(t *testing.T) {
	const window, piece = 1 << 20, 16 << 10
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 5<<19)
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			event := frame(t, watch.Modified, large)
			p := park(t, nil, 0)
			events := bytes.Repeat(event, 3)
			send := func() {
				for len(events) > 0 && p.body.unpaid() < window {
					n := min(piece, len(events), window-p.body.unpaid())
					p.body.deliver(events[:n])
					events = events[n:]
				}
			}
			for got := 1; got <= 3; got++ {
				send()
				if p.wakes != 1 {
					t.Fatalf("frame %d: Wake: got %d calls, want one: the frame is complete", got, p.wakes)
				}
				if held := len(p.stream.frames.data); held > len(event)+window+piece {
					t.Errorf("frame %d: got %d bytes in memory, want %d at most", got, held, len(event)+window+piece)
				}
				if p.read(); len(p.events) != got {
					t.Fatalf("got %d events, want %d", len(p.events), got)
				}
			}
			if p.stream.frames != nil || p.body.unpaid() != 0 {
				t.Errorf("got %d bytes without credit, want none", p.body.unpaid())
			}
		})
	}
}

// A frame above the limit is the same error as from Next. No more is kept, and the server
// gets no more credit.
func TestParkedStreamFrameThatIsTooLong(t *testing.T) {
	bodies := map[string][]byte{
		"protobuf": append(binary.BigEndian.AppendUint32(nil, largestFrame+1), canary...),
		"JSON":     append([]byte(`{"type":"`+canary), bytes.Repeat([]byte("a"), largestFrame+largestKept)...),
	}
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			body := append(frame(t, watch.Added, canarySecret()), bodies[name]...)
			_, want := drain(streamOf(bytes.NewReader(body)))
			p := park(t, nil, 0)
			for piece := range slices.Chunk(body, 1<<20) {
				p.body.deliver(piece)
			}
			unpaid := p.body.unpaid()
			p.body.deliver(make([]byte, 1<<20))
			if held := len(p.stream.frames.data); held > 2000 || p.body.unpaid() != unpaid+1<<20 {
				t.Errorf("after the limit: got %d bytes in memory, and %d more of credit, want neither", held, unpaid+1<<20-p.body.unpaid())
			}
			if p.read(); len(p.events) != 1 || !errors.Is(p.err, cache.ErrMalformed) || fmt.Sprint(p.err) != fmt.Sprint(want) {
				t.Errorf("got %d events and %v, want one and %v", len(p.events), p.err, want)
			}
			checkSecrecy(t, p.err)
		})
	}
}

// The beginning of a frame that came with the end of a large one does not keep the memory of
// that: the next byte may come in an hour.
func TestParkedStreamGivesLargeBufferBack(t *testing.T) {
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 1<<20)
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			made := emptyBuffers(t)
			next := frame(t, watch.Modified, canarySecret())
			p := park(t, nil, 0)
			for piece := range slices.Chunk(append(frame(t, watch.Added, large), next[0]), 16<<10) {
				p.body.deliver(piece)
			}
			p.read()
			if held := cap(p.stream.frames.data); held > largestKept {
				t.Errorf("got %d bytes of memory for one byte", held)
			}
			p.body.deliver(next[1:])
			if p.end(io.EOF); len(p.events) != 2 || !errors.Is(p.err, io.EOF) {
				t.Errorf("got %d events and %v, want 2 and io.EOF", len(p.events), p.err)
			}
			checkCleared(t, made())
		})
	}
}

// Blanks between JSON documents take no memory.
func TestParkedStreamBlanks(t *testing.T) {
	p := park(t, jsonFrame(t, watch.Added, canarySecret()), 1)
	for range 5 {
		p.body.deliver([]byte(strings.Repeat(" \r\n\t", 1000)))
		if p.stream.frames != nil || p.body.unpaid() != 0 {
			t.Fatal("blanks: got a buffer, or no credit")
		}
	}
	p.body.deliver(jsonFrame(t, watch.Modified, canarySecret()))
	if p.end(io.EOF); len(p.events) != 2 || !errors.Is(p.err, io.EOF) {
		t.Errorf("got %d events and %v, want 2 and io.EOF", len(p.events), p.err)
	}
}

// The end of a document is found, wherever the bytes are divided. What a decoder refuses
// anyway may end anywhere.
func TestJSONScanner(t *testing.T) {
	documents := []string{
		`{}`, `[]`, `{"a":{"b":[1,{"c":"}"}]}}`, `{"\"}":"\\"}`, `{"a":"\\\"]}{["}`, `["x",[[]]]`, `"a}"`, `{"ü":"\u007d"}`,
	}
	for _, document := range documents {
		for divided := range document {
			var scanner jsonScanner
			if n, whole := scanner.scan([]byte(document[:divided])); n != divided || whole {
				t.Errorf("%s, the first %d bytes: got %d and %v, want all, and no end", document, divided, n, whole)
			}
			rest := document[divided:] + `{"next":1}`
			n, whole := scanner.scan([]byte(rest))
			if !whole || rest[n:] != `{"next":1}` || scanner != (jsonScanner{}) {
				t.Errorf("%s, divided at %d: got %d and %v, want the end, and the beginning of the next", document, divided, n, whole)
			}
		}
	}
}

// BenchmarkParkedEvent is BenchmarkEvent for a parked stream: an event is delivered and
// then read.
func BenchmarkParkedEvent(b *testing.B) {
	for encoding, frame := range framings {
		secret := canarySecret()
		secret.Data["large"] = bytes.Repeat([]byte("x"), 1<<10)
		body := frame(b, watch.Modified, secret)
		b.Run(encoding, func(b *testing.B) {
			b.ReportAllocs()
			stream := streamOf(nil)
			fake := &fakeBody{arrived: bytes.NewReader(nil)}
			stream.body = fake
			wakes := make(wakeChannel, 1)
			stream.Park(wakes)
			for range b.N {
				fake.receiver.Data(body)
				<-wakes
				for ok, err := true, error(nil); ok; {
					if _, ok, err = stream.TryNext(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkEvent measures an event of a Secret of 1 KiB.
func BenchmarkEvent(b *testing.B) {
	for encoding, frame := range framings {
		secret := canarySecret()
		secret.Data["large"] = bytes.Repeat([]byte("x"), 1<<10)
		body := frame(b, watch.Modified, secret)
		b.Run(encoding, func(b *testing.B) {
			b.ReportAllocs()
			stream := streamOf(&repeated{body: body, left: b.N})
			for {
				if _, err := stream.Next(); err != nil {
					break
				}
			}
		})
	}
}

// repeated is a body that comes a number of times.
type repeated struct {
	body   []byte
	offset int
	left   int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.body[r.offset:])
	if r.offset += n; r.offset == len(r.body) {
		r.offset, r.left = 0, r.left-1
	}
	return n, nil
}

// A parked stream takes memory for what has arrived of a frame, not for the length that it announces.
func TestAnnouncedLengthTakesNoMemoryWhileParked(t *testing.T) {
	emptyBuffers(t)
	f := newFrames()
	f.add(append(binary.BigEndian.AppendUint32(nil, largestFrame), "short"...), formatProtobuf)
	f.add(make([]byte, 1<<10), formatProtobuf) // now the announced length is known
	if got := cap(f.data); got > largestKept {
		t.Errorf("got %d bytes for about 1 KiB", got)
	}
}

// A large frame that arrives in pieces is copied a few times: its memory grows in large steps, up to its length.
func TestLargeFrameIsCopiedSeldom(t *testing.T) {
	emptyBuffers(t)
	f := newFrames()
	frame := append(binary.BigEndian.AppendUint32(nil, 1<<20), make([]byte, 1<<20)...)
	var sizes []int
	for piece := range slices.Chunk(frame, 16<<10) {
		f.add(piece, formatProtobuf)
		if size := cap(f.data); len(sizes) == 0 || size != sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	if !f.ready() || len(sizes) > 6 {
		t.Errorf("got a complete frame: %v, after memory of %d bytes, want one after 6 sizes at most", f.ready(), sizes)
	}
}
