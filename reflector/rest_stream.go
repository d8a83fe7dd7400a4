// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
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
	framer runtime.Framer
}

func encodingOf(contentType string) func() encoding {
	return sync.OnceValue(func() encoding {
		negotiator := runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), schema.GroupVersion{})
		// It fails for a content type that the codecs do not know.
		object, event, framer, _ := negotiator.StreamDecoder(contentType, nil)
		return encoding{object, event, framer}
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
	json      streaming.Decoder // nil: the frames are protobuf, or none has come
	whole     *jsonBody         // what json reads
	known     bool              // the encoding is
	length    [4]byte           // big-endian, of a protobuf frame
}

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
	s.whole = &jsonBody{Reader: io.MultiReader(bytes.NewReader(s.length[:]), s.body), Closer: s.body}
	s.json = streaming.NewDecoder(jsonEncoding().framer.NewFrameReader(s.whole), jsonEncoding().event)
}

// jsonBody is a body that tells what is wrong with the connection from what is
// wrong with its content.
type jsonBody struct {
	io.Reader
	io.Closer

	err error
}

func (b *jsonBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	b.err = err
	return n, err
}

func (s *restStream) nextJSON() (watch.Event, error) {
	var event metav1.WatchEvent
	_, _, err := s.json.Decode(nil, &event)
	switch {
	case err == nil:
		return s.decode(&event, jsonEncoding().object)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return watch.Event{}, err
	case s.whole.err != nil && !errors.Is(s.whole.err, io.EOF):
		return watch.Event{}, s.whole.err
	}
	return watch.Event{}, undecodable(err)
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
