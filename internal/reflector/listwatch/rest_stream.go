// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
)

const (
	// largestFrame is twice what kube-apiserver can store: its etcd client sends at most
	// 2 MiB, and etcd accepts 1.5 MiB by default. The rest is for defaults, another version
	// of the object, and base64 and escapes in JSON. A larger limit would let a server
	// make a stream allocate a GiB, for a decoded object may take forty times its bytes.
	largestFrame = 4 << 20
	// largestKept is the size above which a buffer is not reused.
	largestKept = 64 << 10
)

// restStream reads the events of a watch.
//
// client-go's reader of protobuf frames keeps a buffer of at least 1 KiB, which grows
// to the largest object that it has read. restStream holds no buffer between two
// events: ten thousand streams wait at any time, and few of them read. For the same
// reason Next calls little while it blocks: the runtime shrinks a stack only if less
// than a quarter of it is in use.
//
// Once it is parked ([Parkable]), it holds a buffer only while frames wait. See
// parked_stream.go.
type restStream struct {
	body    io.ReadCloser
	source  *restSource
	arrived func()    // see WithArrivals; nil once the stream is parked
	json    *jsonBody // nil if the frames are protobuf, none has come, or the stream is parked
	wake    Waker     // nil until the stream is parked

	mu       sync.Mutex
	frames   *frames // what has arrived since the stream is parked; nil if TryNext has returned all of it
	waiting  bool    // for something that TryNext returns: then Wake is called
	decoding bool    // TryNext uses frames
	closed   bool

	format format  // of the frames
	length [4]byte // big-endian, of a protobuf frame that Next reads
}

// format is how frames are encoded. client-go does not expose the header of the
// answer, so the first byte decides: a protobuf frame that began with the byte of a
// JSON object would be 2 GB long.
type format byte

const (
	formatUnknown format = iota // no frame has come
	formatProtobuf
	formatJSON
)

func formatOf(firstByte byte) format {
	if firstByte == '{' {
		return formatJSON
	}
	return formatProtobuf
}

// Next implements Stream.
func (s *restStream) Next() (watch.Event, error) {
	if s.json == nil {
		if _, err := io.ReadFull(s.reader(), s.length[:]); err != nil {
			return watch.Event{}, err
		}
	}
	if s.format == formatUnknown {
		if s.format = formatOf(s.length[0]); s.format == formatJSON {
			s.json = newJSONBody(io.MultiReader(bytes.NewReader(s.length[:]), s.reader()))
		}
	}
	if s.json == nil {
		return s.nextProtobuf()
	}
	return s.nextJSON()
}

// reader returns the body for Next.
func (s *restStream) reader() io.Reader {
	if s.arrived == nil {
		return s.body
	}
	return arrivals{s.body, s.arrived}
}

// Close implements Stream. What waits for TryNext is dropped.
func (s *restStream) Close() error {
	err := s.body.Close()
	s.dropFrames()
	return err
}

// errLongFrame means that a JSON frame exceeds the limit.
var errLongFrame = redact.Errorf("%w: a frame of more than %d bytes", cache.ErrMalformed, largestFrame)

// jsonBody limits how much is read for one frame, for JSON frames have no length in
// front. It keeps errors of the connection apart from errors in the content.
type jsonBody struct {
	io.Reader

	decoder *json.Decoder // reads the jsonBody
	left    int           // how much of the frame may still be read
	err     error
}

func newJSONBody(body io.Reader) *jsonBody {
	b := &jsonBody{Reader: body}
	b.decoder = json.NewDecoder(b)
	return b
}

func (b *jsonBody) Read(p []byte) (n int, err error) {
	if b.left == 0 {
		b.err = errLongFrame
		return 0, b.err
	}
	n, err = b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	b.err = err
	return n, err
}

// restIsNoEvent reports whether what was not decoded begins as no object or array does. A
// number or a string is no event, whether its end has come or not.
func (b *jsonBody) restIsNoEvent() bool {
	rest, first := b.decoder.Buffered(), make([]byte, 1) // without a copy: a frame may be long
	for n, _ := rest.Read(first); n > 0; n, _ = rest.Read(first) {
		if len(trimBlanks(first)) > 0 {
			return !bytes.Contains([]byte("{["), first)
		}
	}
	return false
}

func (s *restStream) nextJSON() (watch.Event, error) {
	s.json.left = largestFrame
	var frame json.RawMessage
	err := s.json.decoder.Decode(&frame)
	switch {
	case err == nil:
		return s.decodeJSON(frame)
	case s.json.restIsNoEvent():
		return watch.Event{}, undecodable(err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return watch.Event{}, err
	case s.json.err != nil && !errors.Is(s.json.err, io.EOF):
		return watch.Event{}, s.json.err
	}
	return watch.Event{}, undecodable(err)
}

func (s *restStream) decodeJSON(frame []byte) (watch.Event, error) {
	var event metav1.WatchEvent
	if _, _, err := jsonEncoding().event.Decode(frame, nil, &event); err != nil {
		return watch.Event{}, undecodable(err)
	}
	if event.Type == "" && len(event.Object.Raw) == 0 {
		return watch.Event{}, noEvent(frame)
	}
	return s.decode(&event, jsonEncoding().object)
}

var frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// nextProtobuf reads the frame whose length has been read.
func (s *restStream) nextProtobuf() (watch.Event, error) {
	length := int64(binary.BigEndian.Uint32(s.length[:]))
	if length > largestFrame {
		return watch.Event{}, s.longFrame(length)
	}
	buffer := frameBuffers.Get().(*bytes.Buffer)
	defer putBuffer(buffer)
	// The buffer grows with the bytes that arrive, not with the announced length.
	buffer.Grow(int(min(length, largestKept)))
	if n, err := buffer.ReadFrom(io.LimitReader(s.reader(), length)); err != nil {
		return watch.Event{}, err
	} else if n < length {
		return watch.Event{}, io.ErrUnexpectedEOF
	}
	return s.decodeProtobuf(buffer.Bytes())
}

func (s *restStream) decodeProtobuf(frame []byte) (watch.Event, error) {
	cut, ok := cutProtobuf(frame)
	if ok && s.source.resource.kind.is(cut.kind) {
		return s.decodeCut(cut)
	}
	var event metav1.WatchEvent
	if _, _, err := protobufEncoding().event.Decode(frame, nil, &event); err != nil {
		return watch.Event{}, undecodable(err)
	}
	decoded, err := s.decode(&event, protobufEncoding().object)
	if ok && err == nil {
		s.source.resource.kind.learn(cut.kind)
	}
	return decoded, err
}

// putBuffer returns a buffer to the pool, without the bytes in it, which may be those
// of a secret. A decoded object does not share them.
func putBuffer(buffer *bytes.Buffer) {
	clear(buffer.Bytes())
	buffer.Reset()
	if buffer.Cap() <= largestKept {
		frameBuffers.Put(buffer)
	}
}

// decode decodes the object in an event.
func (s *restStream) decode(event *metav1.WatchEvent, decoder runtime.Decoder) (watch.Event, error) {
	var into runtime.Object
	if event.Type != string(watch.Error) { // which brings a Status
		into = s.source.resource.NewObject()
	}
	object, kind, err := decodeObject(decoder, event.Object.Raw, into)
	if err == nil && into != nil {
		err = s.source.resource.check(object, into, kind)
	}
	if err != nil {
		return watch.Event{}, err
	}
	return s.deliver(watch.EventType(event.Type), object, len(event.Object.Raw)), nil
}

// deliver returns the event of an object of that many bytes.
func (s *restStream) deliver(eventType watch.EventType, object runtime.Object, size int) watch.Event {
	switch eventType {
	case watch.Added, watch.Modified:
		s.source.remember(object, size)
		s.source.shareNames(object)
	case watch.Deleted:
		s.source.remember(nil, 0)
	}
	return watch.Event{Type: eventType, Object: object}
}
