// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"iter"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Decodes the events of kube-apiserver in protobuf. client-go's decoders copy an event twice
// before they decode its object. They remain the judges of what an object is: the object of an
// event is decoded here only if its apiVersion and kind are those of an object of the resource
// that they have decoded before, and if the event has no other form than kube-apiserver's.

// protobufEvent is an event in protobuf. Its parts are those of the frame.
type protobufEvent struct {
	eventType watch.EventType
	kind      []byte // a TypeMeta
	object    []byte
}

// cutProtobuf divides a frame. ok is false if that has another form than kube-apiserver's, which
// a decoder may know, or brings a Status.
func cutProtobuf(frame []byte) (event protobufEvent, ok bool) {
	var eventType, extension, raw, contentEncoding, contentType []byte
	ok = fieldsOf(frame, &eventType, &extension) && fieldsOf(extension, &raw) && bytes.HasPrefix(raw, protobufPrefix) &&
		fieldsOf(raw[len(protobufPrefix):], &event.kind, &event.object, &contentEncoding, &contentType) &&
		event.kind != nil && event.object != nil && len(contentEncoding) == 0 && len(contentType) == 0
	for _, known := range []watch.EventType{watch.Modified, watch.Added, watch.Deleted, watch.Bookmark} {
		if string(eventType) == string(known) {
			event.eventType = known
			return event, ok
		}
	}
	return event, false
}

// fieldsOf sets the values of the fields 1 to n of a message. It returns false if the message has
// another field, has one twice, or one of another type than bytes.
func fieldsOf(message []byte, values ...*[]byte) bool {
	for len(message) > 0 {
		number, wireType, n := protowire.ConsumeTag(message)
		if n < 0 || wireType != protowire.BytesType || int(number) > len(values) || *values[number-1] != nil {
			return false
		}
		value, length := protowire.ConsumeBytes(message[n:])
		if length < 0 {
			return false
		}
		*values[number-1] = value
		message = message[n+length:]
	}
	return true
}

// knownKind is the TypeMeta, in protobuf, of the objects of a resource.
type knownKind struct{ meta atomic.Pointer[string] }

// is reports whether a decoder has made an object of the resource of one with that TypeMeta.
func (k *knownKind) is(meta []byte) bool {
	known := k.meta.Load()
	return known != nil && *known == string(meta)
}

// longestKind is the size above which a TypeMeta is not remembered. Those of real kinds have some dozens of bytes.
const longestKind = 256

// learn remembers a TypeMeta with nothing but an API version and a kind.
func (k *knownKind) learn(meta []byte) {
	var version, kind []byte
	if len(meta) > longestKind || !fieldsOf(meta, &version, &kind) {
		return
	}
	known := string(meta)
	k.meta.Store(&known)
}

// protobufUnmarshaler is an object that can be decoded from protobuf.
type protobufUnmarshaler interface {
	runtime.Object

	Unmarshal(message []byte) error
}

// decodeCut decodes an event whose kind is known.
func (s *restStream) decodeCut(event protobufEvent) (watch.Event, error) {
	object := s.source.resource.NewObject().(protobufUnmarshaler) // as one was whose kind was learned
	message := event.object
	if s.source.resource.WithoutManagedFields && len(message) < largeObject {
		buffer := frameBuffers.Get().(*bytes.Buffer)
		defer putBuffer(buffer)
		message = withoutManagedFields(message, buffer)
	}
	if err := object.Unmarshal(message); err != nil {
		return watch.Event{}, undecodable(err)
	}
	return s.deliver(event.eventType, object, len(event.object)), nil
}

// The numbers of fields (generated.proto of the packages k8s.io/api/core/v1 and
// k8s.io/apimachinery/pkg/apis/meta/v1).
const (
	objectMetadata        protowire.Number = 1
	metadataManagedFields protowire.Number = 17
)

// withoutManagedFields returns an object in protobuf without its managedFields, in a buffer. If
// it has none, or its metadata do not come first, it returns the object.
func withoutManagedFields(object []byte, buffer *bytes.Buffer) []byte {
	number, wireType, tag := protowire.ConsumeTag(object)
	if tag < 0 || number != objectMetadata || wireType != protowire.BytesType {
		return object
	}
	metadata, n := protowire.ConsumeBytes(object[tag:])
	kept := 0
	for field, isKept := range fieldsIn(metadata) {
		if field == nil {
			return object
		}
		if isKept {
			kept += len(field)
		}
	}
	if n < 0 || kept == len(metadata) {
		return object
	}
	header := protowire.AppendTag(buffer.AvailableBuffer(), objectMetadata, protowire.BytesType)
	buffer.Write(protowire.AppendVarint(header, uint64(kept)))
	for field, isKept := range fieldsIn(metadata) {
		if isKept {
			buffer.Write(field)
		}
	}
	buffer.Write(object[tag+n:])
	return buffer.Bytes()
}

// fieldsIn yields the fields of metadata, and whether each is another one than managedFields. It
// yields nil for what is no field, and ends.
func fieldsIn(metadata []byte) iter.Seq2[[]byte, bool] {
	return func(yield func([]byte, bool) bool) {
		for len(metadata) > 0 {
			number, _, size := protowire.ConsumeField(metadata)
			if size < 0 {
				yield(nil, false)
				return
			}
			if !yield(metadata[:size], number != metadataManagedFields) {
				return
			}
			metadata = metadata[size:]
		}
	}
}
