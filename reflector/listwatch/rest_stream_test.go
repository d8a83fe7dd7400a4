// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/internal/failure"
)

// hidden is what must not be seen in an error, nor in a buffer that is kept.
const hidden = "canary-canary-canary"

func hiddenSecret() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tls", ResourceVersion: "5"},
		Data:       map[string][]byte{"password": []byte(hidden)},
		StringData: map[string]string{"text": hidden},
	}
}

// protobufFrame and jsonFrame are an event as a server sends it.
func protobufFrame(t testing.TB, kind watch.EventType, object runtime.Object) []byte {
	t.Helper()
	raw, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), object)
	if err != nil {
		t.Fatal(err)
	}
	event := &metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: raw}}
	frame, err := runtime.Encode(protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme), event)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

func jsonFrame(t testing.TB, kind watch.EventType, object runtime.Object) []byte {
	t.Helper()
	frame, err := json.Marshal(map[string]any{"type": kind, "object": object})
	if err != nil {
		t.Fatal(err)
	}
	return append(frame, '\n')
}

type framing func(testing.TB, watch.EventType, runtime.Object) []byte

var framings = map[string]framing{"protobuf": protobufFrame, "JSON": jsonFrame}

func streamOf(body io.Reader) *restStream {
	return &restStream{body: io.NopCloser(body), newObject: func() runtime.Object { return &corev1.Secret{} }}
}

// drain reads a stream to its end.
func drain(stream *restStream) (events []watch.Event, err error) {
	for {
		event, err := stream.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event)
	}
}

// However the bytes come in, all events are read.
func TestFrames(t *testing.T) {
	readers := map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "one byte": iotest.OneByteReader,
		"half": iotest.HalfReader, "with the end": iotest.DataErrReader,
	}
	for name, frame := range framings {
		for how, reader := range readers {
			t.Run(name+", "+how, func(t *testing.T) {
				status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410, Reason: metav1.StatusReasonExpired}
				body := bytes.Join([][]byte{
					frame(t, watch.Added, hiddenSecret()), frame(t, watch.Modified, hiddenSecret()), frame(t, watch.Error, status),
				}, nil)
				events, err := drain(streamOf(reader(bytes.NewReader(body))))
				if len(events) != 3 || !errors.Is(err, io.EOF) {
					t.Fatalf("got %d events and %v, want 3 and io.EOF", len(events), err)
				}
				for _, event := range events[:2] {
					if got := event.Object.(*corev1.Secret); string(got.Data["password"]) != hidden || got.Name != "tls" {
						t.Errorf("%s: got another object than was sent", event.Type)
					}
				}
				if got := events[2].Object.(*metav1.Status); events[2].Type != watch.Error || got.Code != 410 {
					t.Errorf("error: got %s with %v, want the status", events[2].Type, got)
				}
			})
		}
	}
}

// A body may break off anywhere. That is a fault of the connection, and no end
// of the stream but after a whole frame.
func TestTruncatedFrames(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			first := frame(t, watch.Added, hiddenSecret())
			body := append(first[:len(first):len(first)], frame(t, watch.Modified, hiddenSecret())...)
			for offset := range body {
				events, err := drain(streamOf(bytes.NewReader(body[:offset])))
				whole := offset == 0 || offset == len(first)
				if name == "JSON" { // whose frames are whole without the end of the line
					whole = whole || offset == len(first)-1 || offset == len(body)-1
				}
				if got := errors.Is(err, io.EOF); got != whole {
					t.Errorf("cut at %d of %d: got %v, want io.EOF: %v", offset, len(body), err, whole)
				}
				if !whole && failure.Of(err) != failure.Unreachable {
					t.Errorf("cut at %d of %d: got class %s (%v), want Connection", offset, len(body), failure.Of(err), err)
				}
				if want := map[bool]int{false: 0, true: 1}[offset >= len(first)-1]; len(events) > want+1 {
					t.Errorf("cut at %d of %d: got %d events, want at most %d", offset, len(body), len(events), want)
				}
			}
		})
	}
}

// What a connection breaks with is handed on.
func TestBrokenConnection(t *testing.T) {
	broken := errors.New("connection reset")
	for name, frame := range framings {
		body := frame(t, watch.Added, hiddenSecret())
		for _, offset := range []int{0, 2, 5, len(body) / 2, len(body)} {
			_, err := drain(streamOf(io.MultiReader(bytes.NewReader(body[:offset]), iotest.ErrReader(broken))))
			if !errors.Is(err, broken) {
				t.Errorf("%s, broken at %d: got %v, want %v", name, offset, err, broken)
			}
		}
	}
}

// What is no watch at all is told from a connection that is broken.
func TestWhatIsNoWatch(t *testing.T) {
	tooLong := binary.BigEndian.AppendUint32(nil, largestFrame+1)
	tests := map[string]io.Reader{
		"HTML":                  strings.NewReader("<!DOCTYPE html><html><body>" + hidden + "</body></html>"),
		"text":                  strings.NewReader("upstream connect error: " + hidden),
		"JSON, no event":        strings.NewReader(`{"error":"` + hidden + `"}`),
		"JSON, no object":       strings.NewReader(`{"type":"ADDED"}`),
		"JSON, of a type":       strings.NewReader(`{"type":1,"object":{"` + hidden + `":1}}`),
		"JSON, object a string": strings.NewReader(`{"type":"ADDED","object":"` + hidden + `"}`),
		"JSON, object a list":   strings.NewReader(`{"type":"ADDED","object":["` + hidden + `"]}`),
		"JSON, no kind":         strings.NewReader(`{"type":"ERROR","object":{"message":"` + hidden + `"}}`),
		"JSON, unknown kind":    strings.NewReader(`{"type":"ERROR","object":{"apiVersion":"v7","kind":"` + hidden + `"}}`),
		"JSON, unquoted":        strings.NewReader(`{"type":"ADDED","object":{` + hidden),
		"a frame too long":      bytes.NewReader(tooLong),
		"an empty frame":        bytes.NewReader(make([]byte, 8)),
		"a frame of zeros":      bytes.NewReader(append([]byte{0, 0, 0, 99}, make([]byte, 99)...)),
		"the largest length":    bytes.NewReader([]byte{255, 255, 255, 255}),
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			events, err := drain(streamOf(body))
			if len(events) != 0 || !errors.Is(err, cache.ErrMalformed) {
				t.Errorf("got %d events and %v, want ErrMalformed", len(events), err)
			}
			tellsNothing(t, err)
		})
	}
}

// tellsNothing wants none of the object's data in an error.
func tellsNothing(t testing.TB, err error) {
	t.Helper()
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, form := range []string{"canary", base64.StdEncoding.EncodeToString([]byte(hidden))[:12], fmt.Sprintf("%x", hidden)[:12]} {
		if strings.Contains(text, form) {
			t.Errorf("the error tells of the object: %q in %s", form, text)
		}
	}
}

// Any single byte may be wrong: the stream yields what it can, ends, and its
// error tells nothing of the object.
func TestCorruptFrames(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			body := frame(t, watch.Added, hiddenSecret())
			for offset := range body {
				for _, wrong := range []byte{0, 1, ' ', '"', '}', '{', '1', 0x7f, 0xff, body[offset] ^ 1, body[offset] ^ 0x80} {
					corrupt := bytes.Clone(body)
					corrupt[offset] = wrong
					_, err := drain(streamOf(bytes.NewReader(corrupt)))
					tellsNothing(t, err)
				}
			}
		})
	}
}

// freshBuffers makes the pool of buffers an empty one, and returns how to see all
// that are made for it.
func freshBuffers(t *testing.T) (made func() []*bytes.Buffer) {
	t.Helper()
	var all []*bytes.Buffer
	t.Cleanup(func() { frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }} })
	frameBuffers = sync.Pool{New: func() any {
		all = append(all, new(bytes.Buffer))
		return all[len(all)-1]
	}}
	return func() []*bytes.Buffer { return all }
}

// No byte of an object stays in a buffer that is kept, whether or not it could be
// decoded, and what was decoded does not change with it.
func TestBuffersAreCleared(t *testing.T) {
	body := protobufFrame(t, watch.Added, hiddenSecret())
	bad := bytes.Clone(body)
	bad[len(bad)-3] ^= 0xff
	tests := map[string][]byte{"whole": body, "cut": body[:len(body)-5], "not decodable": bad}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			made := freshBuffers(t)
			event, err := streamOf(bytes.NewReader(body)).Next()
			if len(made()) == 0 {
				t.Fatal("no buffer was used")
			}
			for _, buffer := range made() {
				if buffer.Len() != 0 || bytes.Contains(buffer.AvailableBuffer()[:buffer.Cap()], []byte("canary")) {
					t.Error("a buffer holds the object")
				}
			}
			if err == nil && string(event.Object.(*corev1.Secret).Data["password"]) != hidden {
				t.Error("the object has changed with the buffer")
			}
		})
	}
}

// One large object does not make all streams keep large buffers.
func TestLargeBufferIsNotKept(t *testing.T) {
	made := freshBuffers(t)
	large := hiddenSecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 1<<20)
	body := append(protobufFrame(t, watch.Added, large), protobufFrame(t, watch.Modified, hiddenSecret())...)
	events, err := drain(streamOf(bytes.NewReader(body)))
	if len(events) != 2 || !errors.Is(err, io.EOF) || len(events[0].Object.(*corev1.Secret).Data["large"]) != 1<<20 {
		t.Fatalf("got %d events and %v, want the large object and one more", len(events), err)
	}
	if largest := made()[0].Cap(); largest < 1<<20 {
		t.Fatalf("buffer: got %d bytes, want it to have held the object", largest)
	}
	for range 10 {
		if got := frameBuffers.Get().(*bytes.Buffer).Cap(); got > largestKept {
			t.Errorf("a buffer that is kept: got %d bytes, want %d at most", got, largestKept)
		}
	}
}

// A length alone takes no memory.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	made := freshBuffers(t)
	body := append(binary.BigEndian.AppendUint32(nil, largestFrame), "short"...)
	if _, err := drain(streamOf(bytes.NewReader(body))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want io.ErrUnexpectedEOF", err)
	}
	for _, buffer := range made() {
		if buffer.Cap() > largestKept {
			t.Errorf("buffer: got %d bytes for 5", buffer.Cap())
		}
	}
}

// Between two frames a stream holds no buffer.
func TestNoBufferBetweenFrames(t *testing.T) {
	made := freshBuffers(t)
	frame := protobufFrame(t, watch.Added, hiddenSecret())
	var all []*restStream
	for range 20 {
		stream := streamOf(bytes.NewReader(bytes.Repeat(frame, 2)))
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		all = append(all, stream)
	}
	// Under the race detector a pool forgets some of what it is given.
	if got := len(made()); got > 15 {
		t.Errorf("buffers of %d waiting streams: got %d, want them shared", len(all), got)
	}
}

// FuzzRESTStream reads bodies of any kind: the stream ends with an error that
// tells nothing of what was read, and every event holds an object.
func FuzzRESTStream(f *testing.F) {
	for _, frame := range framings {
		f.Add(frame(f, watch.Added, hiddenSecret()))
		f.Add(frame(f, watch.Bookmark, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}))
		f.Add(frame(f, watch.Error, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410}))
		f.Add(frame(f, watch.Added, &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}))
	}
	f.Add([]byte(`{"type":"ADDED","object":{}}{"type":"ADDED","object":null}{}`))
	f.Add([]byte("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\"}}\n"))
	f.Add([]byte("<html>"))
	f.Add([]byte{0, 0, 0, 1, 10})
	f.Fuzz(func(t *testing.T, body []byte) {
		stream := streamOf(bytes.NewReader(body))
		for range len(body) + 1 {
			event, err := stream.Next()
			if err != nil {
				if class := failure.Of(err); class != failure.Malformed && class != failure.Unreachable {
					t.Errorf("class: got %s (%v)", class, err)
				}
				tellsNothing(t, err)
				return
			}
			if event.Object == nil {
				t.Errorf("an event of type %q without an object", event.Type)
			}
		}
		t.Error("there are more events than bytes")
	})
}
