// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
)

// nameFilter drops the events of objects that are not wanted, by their names. It finds
// the name in a frame before anything is decoded. A frame in which it does not find the
// name is decoded, and then dropped by the name of the object. An object without a name
// is not dropped: the reflector finds it malformed. A nil filter drops nothing.
type nameFilter struct {
	wanted func(name string) bool
	// wire is set if [nameOf] finds the name in the protobuf form of an object.
	wire bool
}

func newNameFilter(newObject func() runtime.Object, wanted func(name string) bool) *nameFilter {
	return &nameFilter{wanted: wanted, wire: hasNameInFront(newObject())}
}

// hasNameInFront reports whether [nameOf] finds the name of an object of this kind.
// Kubernetes' generator numbers the fields, and nothing forces a kind to have its
// metadata in field 1.
func hasNameInFront(object runtime.Object) bool {
	const probe = "name-filter"
	header, err := meta.Accessor(object)
	marshaler, ok := object.(interface{ Marshal() ([]byte, error) })
	if err != nil || !ok {
		return false
	}
	header.SetName(probe)
	data, err := marshaler.Marshal()
	if err != nil {
		return false
	}
	name, ok := nameOf(data)
	return ok && string(name) == probe
}

// drops reports whether an event that has been decoded is to be dropped.
func (f *nameFilter) drops(eventType string, object runtime.Object) bool {
	if f == nil || !holdsObject(eventType) {
		return false
	}
	header, err := meta.Accessor(object)
	return err == nil && f.dropsName(header.GetName())
}

func (f *nameFilter) dropsName(name string) bool { return name != "" && !f.wanted(name) }

// holdsObject reports whether an event holds an object of the selection. A bookmark
// holds a version only, an error a Status.
func holdsObject(eventType string) bool {
	switch watch.EventType(eventType) {
	case watch.Added, watch.Modified, watch.Deleted:
		return true
	}
	return false
}

// dropsJSON reports whether a frame is to be dropped.
func (f *nameFilter) dropsJSON(frame []byte) bool {
	if f == nil {
		return false
	}
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		} `json:"object"`
	}
	// As the decoder does: keys are case-sensitive.
	err := json.Unmarshal(frame, &event)
	return err == nil && holdsObject(event.Type) && f.dropsName(event.Object.Metadata.Name)
}

// The numbers of the fields that lead to the name (generated.proto of the packages
// k8s.io/apimachinery/pkg/apis/meta/v1 and k8s.io/apimachinery/pkg/runtime).
const (
	watchEventType   protowire.Number = 1
	watchEventObject protowire.Number = 2 // a RawExtension
	rawExtensionRaw  protowire.Number = 1 // protobufPrefix and an Unknown
	unknownRaw       protowire.Number = 2 // the object
	objectMetadata   protowire.Number = 1
	metadataName     protowire.Number = 1
)

// dropsProtobuf reports whether a frame is to be dropped.
func (f *nameFilter) dropsProtobuf(frame []byte) bool {
	if f == nil || !f.wire {
		return false
	}
	eventType, ok := onlyField(frame, watchEventType)
	if !ok || !holdsObject(string(eventType)) {
		return false
	}
	raw, ok := fieldAt(frame, watchEventObject, rawExtensionRaw)
	unknown, prefixed := bytes.CutPrefix(raw, protobufPrefix)
	if !ok || !prefixed {
		return false
	}
	object, ok := onlyField(unknown, unknownRaw)
	if !ok {
		return false
	}
	name, ok := nameOf(object)
	return ok && f.dropsName(string(name))
}

// nameOf returns the name in the protobuf form of an object.
func nameOf(object []byte) (name []byte, ok bool) {
	return fieldAt(object, objectMetadata, metadataName)
}

// fieldAt returns the field of a message that a path of field numbers leads to.
func fieldAt(message []byte, path ...protowire.Number) (value []byte, ok bool) {
	for _, number := range path {
		if message, ok = onlyField(message, number); !ok {
			return nil, false
		}
	}
	return message, true
}

// onlyField returns the value of a field of bytes. ok is false if the message does not
// have that field exactly once: a decoder would merge or replace its values.
func onlyField(message []byte, number protowire.Number) (value []byte, ok bool) {
	for len(message) > 0 {
		found, wireType, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		length := protowire.ConsumeFieldValue(found, wireType, message)
		if length < 0 {
			return nil, false
		}
		if found == number {
			if ok || wireType != protowire.BytesType {
				return nil, false
			}
			value, _ = protowire.ConsumeBytes(message)
			ok = true
		}
		message = message[length:]
	}
	return value, ok
}
