// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// All events are read, however the bytes arrive.
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
					frame(t, watch.Added, canarySecret()), frame(t, watch.Modified, canarySecret()), frame(t, watch.Error, status),
				}, nil)
				events, err := drain(streamOf(reader(bytes.NewReader(body))))
				if len(events) != 3 || !errors.Is(err, io.EOF) {
					t.Fatalf("got %d events and %v, want 3 and io.EOF", len(events), err)
				}
				for _, event := range events[:2] {
					if got := event.Object.(*corev1.Secret); string(got.Data["password"]) != canary || got.Name != "tls" {
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

// A body that breaks off is a fault of the connection. It is the end of the stream only
// after a whole frame.
func TestTruncatedFrames(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			first := frame(t, watch.Added, canarySecret())
			body := append(first[:len(first):len(first)], frame(t, watch.Modified, canarySecret())...)
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
					t.Errorf("cut at %d of %d: got class %s (%v), want Unreachable", offset, len(body), failure.Of(err), err)
				}
				if want := map[bool]int{false: 0, true: 1}[offset >= len(first)-1]; len(events) > want+1 {
					t.Errorf("cut at %d of %d: got %d events, want at most %d", offset, len(body), len(events), want)
				}
			}
		})
	}
}

// The error of a broken connection is returned as it is.
func TestBrokenConnection(t *testing.T) {
	broken := errors.New("connection reset")
	for name, frame := range framings {
		body := frame(t, watch.Added, canarySecret())
		for _, offset := range []int{0, 2, 5, len(body) / 2, len(body)} {
			_, err := drain(streamOf(io.MultiReader(bytes.NewReader(body[:offset]), iotest.ErrReader(broken))))
			if !errors.Is(err, broken) {
				t.Errorf("%s, broken at %d: got %v, want %v", name, offset, err, broken)
			}
		}
	}
}

// A body that is no watch is malformed, which is not a broken connection.
func TestBodiesThatAreNoWatch(t *testing.T) {
	tooLong := binary.BigEndian.AppendUint32(nil, largestFrame+1)
	tests := map[string]io.Reader{
		"HTML":                  strings.NewReader("<!DOCTYPE html><html><body>" + canary + "</body></html>"),
		"text":                  strings.NewReader("upstream connect error: " + canary),
		"JSON, no event":        strings.NewReader(`{"error":"` + canary + `"}`),
		"JSON, no object":       strings.NewReader(`{"type":"ADDED"}`),
		"JSON, type a number":   strings.NewReader(`{"type":1,"object":{"` + canary + `":1}}`),
		"JSON, object a string": strings.NewReader(`{"type":"ADDED","object":"` + canary + `"}`),
		"JSON, object a list":   strings.NewReader(`{"type":"ADDED","object":["` + canary + `"]}`),
		"JSON, no kind":         strings.NewReader(`{"type":"ERROR","object":{"message":"` + canary + `"}}`),
		"JSON, unknown kind":    strings.NewReader(`{"type":"ERROR","object":{"apiVersion":"v7","kind":"` + canary + `"}}`),
		"JSON, unquoted":        strings.NewReader(`{"type":"ADDED","object":{` + canary),
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
			checkSecrecy(t, err)
		})
	}
}

// Any single byte may be wrong. The stream ends with an error that does not quote the
// object.
func TestCorruptFrames(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			body := frame(t, watch.Added, canarySecret())
			for offset := range body {
				for _, wrong := range []byte{0, 1, ' ', '"', '}', '{', '1', 0x7f, 0xff, body[offset] ^ 1, body[offset] ^ 0x80} {
					corrupt := bytes.Clone(body)
					corrupt[offset] = wrong
					_, err := drain(streamOf(bytes.NewReader(corrupt)))
					checkSecrecy(t, err)
				}
			}
		})
	}
}

// emptyBuffers empties the pool of buffers. made returns all buffers that are made after
// that.
func emptyBuffers(t *testing.T) (made func() []*bytes.Buffer) {
	t.Helper()
	var all []*bytes.Buffer
	t.Cleanup(func() { frameBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }} })
	frameBuffers = sync.Pool{New: func() any {
		all = append(all, new(bytes.Buffer))
		return all[len(all)-1]
	}}
	return func() []*bytes.Buffer { return all }
}

// No byte of an object stays in a buffer of the pool, whether or not it was decoded. A
// decoded object does not share the buffer.
func TestBuffersAreCleared(t *testing.T) {
	body := protobufFrame(t, watch.Added, canarySecret())
	bad := bytes.Clone(body)
	bad[len(bad)-3] ^= 0xff
	tests := map[string][]byte{"whole": body, "cut": body[:len(body)-5], "not decodable": bad}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			made := emptyBuffers(t)
			event, err := streamOf(bytes.NewReader(body)).Next()
			if len(made()) == 0 {
				t.Fatal("no buffer was used")
			}
			for _, buffer := range made() {
				if buffer.Len() != 0 || bytes.Contains(buffer.AvailableBuffer()[:buffer.Cap()], []byte("canary")) {
					t.Error("a buffer holds the object")
				}
			}
			if err == nil && string(event.Object.(*corev1.Secret).Data["password"]) != canary {
				t.Error("the object has changed with the buffer")
			}
		})
	}
}

// The pool does not keep the buffer of a large object.
func TestLargeBufferIsNotKept(t *testing.T) {
	made := emptyBuffers(t)
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 1<<20)
	body := append(protobufFrame(t, watch.Added, large), protobufFrame(t, watch.Modified, canarySecret())...)
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

// A length without the bytes takes no memory.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	made := emptyBuffers(t)
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

// A stream holds no buffer between two frames.
func TestNoBufferBetweenFrames(t *testing.T) {
	made := emptyBuffers(t)
	frame := protobufFrame(t, watch.Added, canarySecret())
	var all []*restStream
	for range 20 {
		stream := streamOf(bytes.NewReader(bytes.Repeat(frame, 2)))
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		all = append(all, stream)
	}
	// Under the race detector a pool drops some of its items.
	if got := len(made()); got > 15 {
		t.Errorf("buffers of %d waiting streams: got %d, want them shared", len(all), got)
	}
}

// An element of a list may take forty times the memory of its bytes in a frame, so the limit
// of a frame bounds what a server can make a stream allocate. An object of 1.5 MiB, etcd's
// default limit for a request, is far below it.
func TestFrameOfEmptyElements(t *testing.T) {
	const elements = 4 << 20
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 3<<19)
	secret := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), bytes.Repeat([]byte{13<<3 | 2, 0}, elements))
	raw, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Raw: secret}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	event, err := (&metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Raw: append(protobufPrefix, raw...)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string][]byte{
		"protobuf": append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...),
		"JSON": []byte(`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"ownerReferences":[{}` +
			strings.Repeat(",{}", elements) + `]}}}`),
	}
	for name, frame := range frames {
		body := append(framings[name](t, watch.Added, large), frame...)
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		events, err := drain(streamOf(bytes.NewReader(body)))
		goruntime.ReadMemStats(&after)
		if len(events) != 1 || !errors.Is(err, cache.ErrMalformed) {
			t.Errorf("%s: got %d events and %v, want the one of 1.5 MiB and ErrMalformed", name, len(events), err)
		}
		if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 64 {
			t.Errorf("%s: allocated %d MiB, want 64 at most", name, got)
		}
	}
}

// A JSON frame has no length in front. It is refused at the limit, and the bytes after
// that are not read: a GiB here.
func TestJSONFrameThatIsTooLong(t *testing.T) {
	bodies := map[string][]string{
		"a string":       {`{"type":"`, "\"}\n"},
		"an object":      {`{"type":"ADDED","object":{"data":{"x":"`, "\"}}}\n"},
		"after another":  {string(jsonFrame(t, watch.Added, canarySecret())) + `{"type":"`, "\"}\n"},
		"blanks between": {string(jsonFrame(t, watch.Added, canarySecret())), "\n"},
	}
	for name, body := range bodies {
		filling := byte('a')
		if name == "blanks between" {
			filling = ' '
		}
		counted := &counter{Reader: io.MultiReader(
			strings.NewReader(body[0]), io.LimitReader(endless(filling), 1<<30), strings.NewReader(body[1]))}
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		_, err := drain(streamOf(counted))
		goruntime.ReadMemStats(&after)
		if !errors.Is(err, cache.ErrMalformed) {
			t.Errorf("%s: got %v, want ErrMalformed", name, err)
		}
		if got, want := counted.n, int64(largestFrame+largestKept); got > want {
			t.Errorf("%s: read %d bytes, want %d at most", name, got, want)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*largestFrame {
			t.Errorf("%s: allocated %d MiB, want %d at most", name, got>>20, 8*largestFrame>>20)
		}
		checkSecrecy(t, err)
	}
}

// The limit is that of one frame: many frames may be longer together.
func TestManyJSONFramesAreNotTooLong(t *testing.T) {
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), 1<<20)
	frame := jsonFrame(t, watch.Modified, large)
	n := largestFrame/len(frame) + 2
	var bodies []io.Reader
	for range n {
		bodies = append(bodies, bytes.NewReader(frame))
	}
	events, err := drain(streamOf(io.MultiReader(bodies...)))
	if len(events) != n || !errors.Is(err, io.EOF) {
		t.Errorf("got %d events and %v, want %d and io.EOF", len(events), err, n)
	}
}

// counter counts the bytes that are read.
type counter struct {
	io.Reader

	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// FuzzRESTStream reads any body. Every event holds an object, and the stream ends with an
// error that does not quote the body.
func FuzzRESTStream(f *testing.F) {
	for _, frame := range framings {
		f.Add(frame(f, watch.Added, canarySecret()))
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
				checkSecrecy(t, err)
				return
			}
			if event.Object == nil {
				t.Errorf("an event of type %q without an object", event.Type)
			}
		}
		t.Error("there are more events than bytes")
	})
}
