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
type restStream struct {
	body      io.ReadCloser
	newObject func() runtime.Object
	events    streaming.Decoder // nil until the first bytes have told the encoding
	objects   runtime.Decoder
}

// Next implements Stream.
func (s *restStream) Next() (watch.Event, error) {
	if s.events == nil {
		if err := s.recognise(); err != nil {
			return watch.Event{}, err
		}
	}
	var event metav1.WatchEvent
	if _, _, err := s.events.Decode(nil, &event); err != nil {
		return watch.Event{}, err
	}
	var into runtime.Object
	if event.Type != string(watch.Error) { // which brings a Status
		into = s.newObject()
	}
	object, _, err := s.objects.Decode(event.Object.Raw, nil, into)
	if err != nil {
		return watch.Event{}, undecodable(err)
	}
	return watch.Event{Type: watch.EventType(event.Type), Object: object}, nil
}

// Close implements Stream.
func (s *restStream) Close() error { return s.body.Close() }

// recognise tells the encoding by the first bytes: the request does not give
// away the answer's header. A protobuf frame that began like a JSON one would be
// 2 GB long.
func (s *restStream) recognise() error {
	frames := &protobufFrames{body: s.body, decoder: protobufEncoding().event}
	if err := frames.readLength(); err != nil {
		return err
	}
	if frames.length[0] != '{' {
		s.events, s.objects = frames, protobufEncoding().object
		return nil
	}
	whole := struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(frames.length[:]), s.body), s.body}
	frameReader := jsonEncoding().framer.NewFrameReader(whole)
	s.events, s.objects = jsonFrames{streaming.NewDecoder(frameReader, jsonEncoding().event)}, jsonEncoding().object
	return nil
}

// jsonFrames tells what is wrong with a frame from what is wrong with the
// connection.
type jsonFrames struct{ streaming.Decoder }

func (f jsonFrames) Decode(defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := f.Decoder.Decode(defaults, into)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) || errors.Is(err, streaming.ErrObjectTooLarge) || runtime.IsMissingKind(err) {
		err = undecodable(err)
	}
	return object, kind, err
}

// protobufFrames reads frames that follow their length. client-go's own reader
// of them keeps a buffer of a KiB at least, and as large as the largest object
// ever; this one holds none between two frames: ten thousand streams wait at any
// time, and few of them read.
type protobufFrames struct {
	body    io.ReadCloser
	decoder runtime.Decoder
	length  [4]byte // big-endian, of the frame to come
	begun   bool    // length was read, the frame was not
}

var frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func (f *protobufFrames) readLength() error {
	_, err := io.ReadFull(f.body, f.length[:])
	f.begun = err == nil
	return err
}

// Decode implements streaming.Decoder.
func (f *protobufFrames) Decode(defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if !f.begun {
		if err := f.readLength(); err != nil {
			return nil, nil, err
		}
	}
	f.begun = false
	length := int64(binary.BigEndian.Uint32(f.length[:]))
	if length > largestFrame {
		return nil, nil, fmt.Errorf("%w: a frame of %d bytes", ErrMalformed, length)
	}
	buffer := frameBuffers.Get().(*bytes.Buffer)
	defer giveBack(buffer)
	// It grows with what arrives, whatever length was announced.
	if n, err := buffer.ReadFrom(io.LimitReader(f.body, length)); err != nil {
		return nil, nil, err
	} else if n < length {
		return nil, nil, io.ErrUnexpectedEOF
	}
	object, kind, err := f.decoder.Decode(buffer.Bytes(), defaults, into)
	if err != nil {
		err = undecodable(err)
	}
	return object, kind, err
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

// Close implements streaming.Decoder.
func (f *protobufFrames) Close() error { return f.body.Close() }

// undecodable hides the text of an error, which may quote an object.
func undecodable(err error) error {
	return fmt.Errorf("%w: a frame that cannot be decoded (%T)", ErrMalformed, err)
}
