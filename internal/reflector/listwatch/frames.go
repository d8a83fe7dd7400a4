// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// frames is what has arrived of a parked stream and was not worked off: complete
// frames, and the beginning of another one. It has no lock.
type frames struct {
	buffer *bytes.Buffer // from the pool; its memory is that of data until put
	// data is the frames, each with its length in front: 4 bytes, big-endian. Protobuf
	// frames come with it, and JSON frames get it here.
	data     []byte
	complete int // where the complete frames in data end; 0 if all were worked off
	taken    int // where the frames end that next has returned
	owed     int // bytes that the server gets no credit for until the complete frames are worked off
	json     jsonScanner
	end      error // why no more frames come
}

// lengthSize is the size of the length in front of a frame.
const lengthSize = 4

func newFrames() *frames {
	buffer := frameBuffers.Get().(*bytes.Buffer)
	return &frames{buffer: buffer, data: buffer.AvailableBuffer()}
}

// put returns the memory to the pool. f is not used after that.
func (f *frames) put() {
	if f == nil {
		return
	}
	*f.buffer = *bytes.NewBuffer(f.data)
	putBuffer(f.buffer)
}

// add adds bytes of the body. It returns how many of them the server may send again at
// once: all, or none.
func (f *frames) add(p []byte, format format) (consumed int) {
	switch {
	case f.end != nil: // the rest is not read
	case format == formatJSON:
		f.addJSON(p)
	default:
		f.addProtobuf(p)
	}
	if f.complete > 0 || f.end != nil {
		f.owed += len(p)
		return 0
	}
	return len(p)
}

func (f *frames) addProtobuf(p []byte) {
	f.data = append(f.growFor(p), p...)
	for len(f.data)-f.complete >= lengthSize {
		length := int64(binary.BigEndian.Uint32(f.data[f.complete:]))
		if length > largestFrame {
			f.fail(errLongFrame) // Next returns another error for that length
			return
		}
		if int64(len(f.data)-f.complete-lengthSize) < length {
			return
		}
		f.complete += lengthSize + int(length)
	}
}

// growFor returns data with room for p. A large frame gets four times the memory of what
// has arrived, and no more than its announced length: append would copy it ten times.
func (f *frames) growFor(p []byte) []byte {
	if len(f.data)+len(p) <= cap(f.data) || len(f.data)-f.complete < lengthSize {
		return f.data
	}
	whole := f.complete + lengthSize + int(binary.BigEndian.Uint32(f.data[f.complete:]))
	room := min(whole, 4*(len(f.data)+len(p)))
	return slices.Grow(f.data, max(room-len(f.data), len(p)))
}

func (f *frames) addJSON(p []byte) {
	for {
		if len(f.data) == f.complete {
			if p = trimBlanks(p); len(p) > 0 {
				f.data = append(f.data, make([]byte, lengthSize)...)
			}
		}
		if len(p) == 0 {
			return
		}
		n, whole := f.json.scan(p)
		f.data = append(f.data, p[:n]...)
		p = p[n:]
		length := len(f.data) - f.complete - lengthSize
		if length > largestFrame {
			f.cut(f.complete)
			f.json = jsonScanner{}
			f.fail(errLongFrame)
			return
		}
		if whole {
			binary.BigEndian.PutUint32(f.data[f.complete:], uint32(length))
			f.complete = len(f.data)
		}
	}
}

// fail records why no more frames come. The first reason is kept.
func (f *frames) fail(err error) {
	if f.end == nil {
		f.end = err
	}
}

// ready reports whether next has something to return.
func (f *frames) ready() bool { return f.taken < f.complete || f.end != nil }

// next returns the next complete frame. If there is none and the body has ended, it
// returns the end and the incomplete frame.
func (f *frames) next() (frame []byte, end error, ok bool) { //nolint:revive // end is a result
	if f.taken == f.complete {
		return f.rest(), f.end, f.end != nil
	}
	start := f.taken + lengthSize
	f.taken = start + int(binary.BigEndian.Uint32(f.data[f.taken:]))
	return f.data[start:f.taken], nil, true
}

// rest returns the bytes of the incomplete frame as they have come.
func (f *frames) rest() []byte {
	rest := f.data[f.complete:]
	if f.json.started {
		return rest[lengthSize:]
	}
	return rest
}

// worked is called when what next has returned is no longer used. It returns how many
// bytes the server may send again.
func (f *frames) worked() (credit int) {
	if f.taken < f.complete || f.end != nil {
		return 0
	}
	n := copy(f.data, f.data[f.complete:])
	f.cut(n)
	f.shrink()
	f.complete, f.taken = 0, 0
	credit, f.owed = f.owed, 0
	return credit
}

// shrink gives the memory of a large frame back, if little is left in it.
func (f *frames) shrink() {
	if cap(f.data) <= largestKept || len(f.data) > largestKept {
		return
	}
	small := newFrames()
	small.data = append(small.data, f.data...)
	large := frames{buffer: f.buffer, data: f.data}
	f.buffer, f.data = small.buffer, small.data
	large.put()
}

// cut drops the bytes after the first n. They may be those of a secret.
func (f *frames) cut(n int) {
	clear(f.data[n:])
	f.data = f.data[:n]
}

// empty reports whether nothing is left.
func (f *frames) empty() bool { return len(f.data) == 0 && f.end == nil }

// jsonScanner finds the end of a JSON document, which may come in parts. A decoder
// finds out later whether the document is valid.
type jsonScanner struct {
	depth    int // of objects and arrays
	started  bool
	inString bool
	escaped  bool // the next byte of the string is escaped
}

// scan returns where the document ends in p, or len(p) and false. The next call begins
// with the next document. A document that is no object or array ends after its first
// byte, unless it is a string: an event is an object, so a decoder refuses it anyway.
func (s *jsonScanner) scan(p []byte) (n int, whole bool) {
	s.started = true
	for i, b := range p {
		switch {
		case s.escaped:
			s.escaped = false
			continue
		case s.inString:
			s.escaped, s.inString = b == '\\', b != '"'
		case b == '"':
			s.inString = true
		case b == '{', b == '[':
			s.depth++
		case b == '}', b == ']':
			s.depth--
		}
		if s.depth <= 0 && !s.inString {
			*s = jsonScanner{}
			return i + 1, true
		}
	}
	return len(p), false
}

// trimBlanks returns p without the blanks at its beginning, which may stand between two
// JSON documents.
func trimBlanks(p []byte) []byte { return bytes.TrimLeft(p, blanks) }

const blanks = " \t\r\n"
