// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// largestFrame is that of client-go, 16 MiB; etcd takes 1.5 MiB by default.
	largestFrame = 16 << 20
	// largestKept is how large a buffer may be that is kept for the next frame.
	largestKept = 64 << 10
)

// encoding is how client-go decodes the streams of one content type.
type encoding struct {
	object runtime.Decoder
	event  runtime.Decoder
}

func encodingOf(contentType string) func() encoding {
	return sync.OnceValue(func() encoding {
		negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), schema.GroupVersion{})
		// It fails for a content type that the codecs do not know.
		object, event, _, _ := negotiator.StreamDecoder(contentType, nil)
		return encoding{object, event}
	})
}

var (
	protobufEncoding = encodingOf(runtime.ContentTypeProtobuf)
	jsonEncoding     = encodingOf(runtime.ContentTypeJSON)
)

// restStream reads the events of a watch.
//
// client-go's own reader of protobuf frames keeps a buffer of a KiB at least, and
// as large as the largest object ever. This one holds none between two events:
// ten thousand streams wait at any time, and few of them read. For the same
// reason, what blocks for hours is Next and little below it: a stack is shrunk
// when less than a quarter of it is in use.
type restStream struct {
	body      io.ReadCloser
	newObject func() runtime.Object
	json      *json.Decoder // nil: the frames are protobuf, or none has come
	jsonBody  *jsonBody     // what json reads
	known     bool          // the encoding is
	length    [4]byte       // big-endian, of a protobuf frame
}

func (*restStream) careful() {}

// Next implements Stream.
func (s *restStream) Next() (watch.Event, error) {
	if s.json == nil {
		if _, err := io.ReadFull(s.body, s.length[:]); err != nil {
			return watch.Event{}, err
		}
	}
	return s.next()
}

func (s *restStream) next() (watch.Event, error) {
	if !s.known {
		s.known = true
		s.recognise()
	}
	if s.json == nil {
		return s.nextProtobuf()
	}
	return s.nextJSON()
}

// Close implements Stream.
func (s *restStream) Close() error { return s.body.Close() }

// recognise tells the encoding by the first bytes: client-go does not give away
// the answer's header. A protobuf frame that began like a JSON one would be 2 GB
// long.
func (s *restStream) recognise() {
	if s.length[0] != '{' {
		return
	}
	s.jsonBody = &jsonBody{Reader: io.MultiReader(bytes.NewReader(s.length[:]), s.body)}
	s.json = json.NewDecoder(s.jsonBody)
}

// errLongFrame is the cause when a JSON frame did not end in time.
var errLongFrame = fmt.Errorf("%w: a frame of more than %d bytes", ErrMalformed, largestFrame)

// jsonBody is a body that is read no further than the longest frame may reach,
// and that tells what is wrong with the connection from what is wrong with its
// content. JSON frames have no length in front.
type jsonBody struct {
	io.Reader

	left int // how much of the frame may still be read
	err  error
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

func (s *restStream) nextJSON() (watch.Event, error) {
	s.jsonBody.left = largestFrame
	var frame json.RawMessage
	err := s.json.Decode(&frame)
	switch {
	case err == nil:
		return s.decodeJSON(frame)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return watch.Event{}, err
	case s.jsonBody.err != nil && !errors.Is(s.jsonBody.err, io.EOF):
		return watch.Event{}, s.jsonBody.err
	}
	return watch.Event{}, undecodable(err)
}

func (s *restStream) decodeJSON(frame []byte) (watch.Event, error) {
	var event metav1.WatchEvent
	if _, _, err := jsonEncoding().event.Decode(frame, nil, &event); err != nil {
		return watch.Event{}, undecodable(err)
	}
	return s.decode(&event, jsonEncoding().object)
}

var frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// nextProtobuf reads the frame whose length has been read.
func (s *restStream) nextProtobuf() (watch.Event, error) {
	length := int64(binary.BigEndian.Uint32(s.length[:]))
	if length > largestFrame {
		return watch.Event{}, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, length)
	}
	buffer := frameBuffers.Get().(*bytes.Buffer)
	defer giveBack(buffer)
	// It grows with what arrives, whatever length was announced.
	buffer.Grow(int(min(length, largestKept)))
	if n, err := buffer.ReadFrom(io.LimitReader(s.body, length)); err != nil {
		return watch.Event{}, err
	} else if n < length {
		return watch.Event{}, io.ErrUnexpectedEOF
	}
	var event metav1.WatchEvent
	if _, _, err := protobufEncoding().event.Decode(buffer.Bytes(), nil, &event); err != nil {
		return watch.Event{}, undecodable(err)
	}
	return s.decode(&event, protobufEncoding().object)
}

// giveBack lets a buffer be used again. What is decoded does not share its bytes;
// they may be those of a secret, which nobody should find in it later.
func giveBack(buffer *bytes.Buffer) {
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
		into = s.newObject()
	}
	object, _, err := decoder.Decode(event.Object.Raw, nil, into)
	if err != nil {
		return watch.Event{}, undecodable(err)
	}
	return watch.Event{Type: watch.EventType(event.Type), Object: object}, nil
}

// undecodable hides the text of an error, which may quote an object.
func undecodable(err error) error {
	return fmt.Errorf("%w: a frame that cannot be decoded (%T)", ErrMalformed, err)
}
