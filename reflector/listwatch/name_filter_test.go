// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
)

func isTLS(name string) bool { return name == "tls" }

// filtered returns a stream of secrets that drops all names but tls. It counts the objects that are made.
func filtered(body io.Reader) (stream *restStream, made *int) {
	stream, made = streamOf(body), new(int)
	stream.filter = newNameFilter(stream.source.resource.NewObject, isTLS)
	stream.source.resource.NewObject = func() runtime.Object { *made++; return &corev1.Secret{} }
	return stream, made
}

func named(name string) *corev1.Secret {
	secret := canarySecret()
	secret.Name = name
	return secret
}

// Of objects that are not wanted nothing is decoded, and no buffer keeps a byte.
func TestDroppedObjectIsNotKept(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			buffers := emptyBuffers(t)
			var body []byte
			for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				body = append(body, frame(t, kind, named("other"))...)
			}
			stream, made := filtered(bytes.NewReader(body))
			events, err := drain(stream)
			if len(events) != 0 || !errors.Is(err, io.EOF) || *made != 0 {
				t.Errorf("got %d events, %d objects made and %v, want none and io.EOF", len(events), *made, err)
			}
			for _, buffer := range buffers() {
				if buffer.Len() != 0 || bytes.Contains(buffer.AvailableBuffer()[:buffer.Cap()], []byte("canary")) {
					t.Error("a buffer holds the object")
				}
			}
		})
	}
}

// Only events that hold an object of the selection are dropped.
func TestFilterPassesOn(t *testing.T) {
	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410}
	tests := map[string]struct {
		kind   watch.EventType
		object runtime.Object
	}{
		"wanted":           {watch.Added, named("tls")},
		"wanted, deleted":  {watch.Deleted, named("tls")},
		"no name":          {watch.Added, named("")},
		"bookmark":         {watch.Bookmark, named("")},
		"bookmark, a name": {watch.Bookmark, named("other")},
		"error":            {watch.Error, status},
		"an unknown type":  {"MELTED", named("other")},
		"an empty type":    {"", named("other")},
	}
	for name, test := range tests {
		for encoding, frame := range framings {
			stream, _ := filtered(bytes.NewReader(frame(t, test.kind, test.object)))
			if events, err := drain(stream); len(events) != 1 || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: got %d events and %v, want 1 and io.EOF", name, encoding, len(events), err)
			}
		}
	}
}

// message returns a message with one field of bytes.
func message(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// wireFrame returns the frame of an Added event with the protobuf form of an object.
func wireFrame(object []byte) []byte {
	kind := append(message(1, []byte("v1")), message(2, []byte("Secret"))...)
	raw := bytes.Join([][]byte{protobufPrefix, message(1, kind), message(unknownRaw, object)}, nil)
	event := append(message(watchEventType, []byte(watch.Added)), message(watchEventObject, message(rawExtensionRaw, raw))...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// The walk finds a name only where a decoder finds the same name. Other objects are
// decoded, and dropped by their names.
func TestNameOf(t *testing.T) {
	metadata := func(name string) []byte { return message(objectMetadata, message(metadataName, []byte(name))) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	varint := protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 300)
	tests := map[string]struct {
		object []byte
		found  string // by the walk
		events int
	}{
		"other":              {metadata("other"), "other", 0},
		"wanted":             {metadata("tls"), "tls", 1},
		"fields in front":    {join(varint, message(7, []byte("x")), metadata("other")), "other", 0},
		"fields behind":      {join(metadata("other"), varint), "other", 0},
		"metadata twice":     {join(metadata("tls"), metadata("other")), "", 0},
		"metadata twice, II": {join(metadata("other"), metadata("tls")), "", 1},
		"name twice":         {message(objectMetadata, join(message(metadataName, []byte("other")), message(metadataName, []byte("tls")))), "", 1},
		"no metadata":        {message(3, []byte("Opaque")), "", 1},
		"empty name":         {metadata(""), "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := nameOf(test.object); string(got) != test.found || ok != (test.found != "" || name == "empty name") {
				t.Errorf("walk: got %q, %v, want %q", got, ok, test.found)
			}
			stream, made := filtered(bytes.NewReader(wireFrame(test.object)))
			events, err := drain(stream)
			if len(events) != test.events || !errors.Is(err, io.EOF) {
				t.Errorf("got %d events and %v, want %d and io.EOF", len(events), err, test.events)
			}
			if decoded := test.events > 0 || test.found == ""; decoded != (*made > 0) {
				t.Errorf("decoded: got %v, want %v", *made > 0, decoded)
			}
		})
	}
}

// A frame that cannot be walked and not decoded either ends the stream.
func TestFilterOfAFrameThatCannotBeDecoded(t *testing.T) {
	for name, object := range map[string][]byte{
		"a tag cut off":     {0x80},
		"a length too long": {0x0a, 0x7f, 1},
		"a group":           {0x0b},
		"metadata a number": protowire.AppendVarint(protowire.AppendTag(nil, objectMetadata, protowire.VarintType), 1),
	} {
		stream, _ := filtered(bytes.NewReader(wireFrame(object)))
		if events, err := drain(stream); len(events) != 0 || !errors.Is(err, cache.ErrMalformed) {
			t.Errorf("%s: got %d events and %v, want ErrMalformed", name, len(events), err)
		}
	}
}

// tailSecret is a kind whose metadata does not stand in field 1.
type tailSecret struct{ corev1.Secret }

func (s *tailSecret) Marshal() ([]byte, error) {
	data, err := s.Secret.Marshal()
	return message(2, data), err
}

// A kind whose metadata is elsewhere, or that has no protobuf form, is decoded in full.
func TestFilterChecksWhereTheNameIs(t *testing.T) {
	tests := map[string]struct {
		object runtime.Object
		want   bool
	}{
		"secret":    {&corev1.Secret{}, true},
		"node":      {&corev1.Node{}, true},
		"elsewhere": {&tailSecret{}, false},
		"JSON only": {&Kettle{}, false},
	}
	for name, test := range tests {
		if got := newNameFilter(func() runtime.Object { return test.object }, isTLS).wire; got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// FuzzNameFilter compares a stream with a filter to one without: the filter drops the events of other names, and
// nothing else. It may drop a frame that cannot be decoded.
func FuzzNameFilter(f *testing.F) {
	for _, frame := range framings {
		f.Add(bytes.Join([][]byte{frame(f, watch.Added, named("other")), frame(f, watch.Modified, named("tls"))}, nil))
		f.Add(frame(f, watch.Bookmark, named("")))
		f.Add(frame(f, watch.Error, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410}))
	}
	f.Add(wireFrame(append(message(1, message(1, []byte("tls"))), message(1, message(1, []byte("other")))...)))
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"tls"},"metadata":{"name":"other"}}}`))
	f.Add([]byte(`{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"Name":"other","name":"tls"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		all, allErr := drain(streamOf(bytes.NewReader(body)))
		stream, _ := filtered(bytes.NewReader(body))
		got, err := drain(stream)
		checkSecrecy(t, err)
		var want []watch.Event
		for _, event := range all {
			header, err := meta.Accessor(event.Object)
			if !holdsObject(string(event.Type)) || err != nil || header.GetName() == "" || header.GetName() == "tls" {
				want = append(want, event)
			}
		}
		if len(got) < len(want) || len(got) > len(want) && errors.Is(allErr, io.EOF) {
			t.Fatalf("got %d events, want %d", len(got), len(want))
		}
		for i, event := range want {
			if !equality.Semantic.DeepEqual(event, got[i]) {
				t.Errorf("event %d: got %v, want %v", i, got[i].Type, event.Type)
			}
		}
	})
}

// BenchmarkEvent measures an event of a Secret of 1 KiB: one that is dropped, and one that is decoded.
func BenchmarkEvent(b *testing.B) {
	for encoding, frame := range framings {
		for _, name := range []string{"other", "tls"} {
			secret := named(name)
			secret.Data["large"] = bytes.Repeat([]byte("x"), 1<<10)
			body := frame(b, watch.Modified, secret)
			b.Run(encoding+"/"+map[string]string{"other": "dropped", "tls": "decoded"}[name], func(b *testing.B) {
				b.ReportAllocs()
				stream, _ := filtered(&repeated{body: body, left: b.N})
				for {
					if _, err := stream.Next(); err != nil {
						break
					}
				}
			})
		}
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
