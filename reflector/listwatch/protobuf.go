// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
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

func (k *knownKind) learn(meta []byte) {
	known := string(meta)
	k.meta.Store(&known)
}

// protobufUnmarshaler is an object that can be decoded from protobuf.
type protobufUnmarshaler interface {
	runtime.Object

	Unmarshal(message []byte) error
}

// decodeCut decodes an event whose kind is known. It changes the bytes of the event.
func (s *restStream) decodeCut(event protobufEvent) (watch.Event, error) {
	object := s.source.resource.NewObject().(protobufUnmarshaler) // as one was whose kind was learned
	size := len(event.object)
	// A bookmark has none, and its frame is compared with others.
	if s.source.resource.WithoutManagedFields && size < largeObject && event.eventType != watch.Bookmark {
		event.object = withoutManagedFields(event.object)
	}
	if err := object.Unmarshal(event.object); err != nil {
		return watch.Event{}, undecodable(err)
	}
	return s.deliver(event.eventType, object, size)
}

// metadataManagedFields is the number of that field (generated.proto of the package
// k8s.io/apimachinery/pkg/apis/meta/v1).
const metadataManagedFields protowire.Number = 17

// withoutManagedFields returns an object in protobuf without its managedFields, if its metadata
// come first. It changes the bytes of the object: what stands before the managedFields moves up
// to what follows them.
func withoutManagedFields(object []byte) []byte {
	number, wireType, tag := protowire.ConsumeTag(object)
	if tag < 0 || number != objectMetadata || wireType != protowire.BytesType {
		return object
	}
	metadata, n := protowire.ConsumeBytes(object[tag:])
	if n < 0 {
		return object
	}
	end := tag + n
	kept := compactMetadata(metadata)
	if kept < 0 || kept == len(metadata) {
		return object
	}
	copy(metadata[len(metadata)-kept:], metadata[:kept])
	var space [2 * 10]byte // a tag and a length
	header := protowire.AppendVarint(protowire.AppendTag(space[:0], objectMetadata, protowire.BytesType), uint64(kept))
	begin := end - kept - len(header)
	copy(object[begin:], header)
	return object[begin:]
}

// compactMetadata moves the fields of metadata that are no managedFields to the front. It returns how many bytes
// those have, or -1 if the metadata cannot be decoded, which it then does not change.
func compactMetadata(metadata []byte) (kept int) {
	if !isMessage(metadata) {
		return -1
	}
	for at := 0; at < len(metadata); {
		number, _, size := protowire.ConsumeField(metadata[at:])
		if number != metadataManagedFields {
			kept += copy(metadata[kept:], metadata[at:at+size])
		}
		at += size
	}
	return kept
}

// isMessage reports whether bytes can be divided into fields.
func isMessage(message []byte) bool {
	for len(message) > 0 {
		_, _, size := protowire.ConsumeField(message)
		if size < 0 {
			return false
		}
		message = message[size:]
	}
	return true
}
