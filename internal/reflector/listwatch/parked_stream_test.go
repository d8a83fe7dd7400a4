// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/iotest"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// A parked stream returns what Next returns for the same bytes: all events, and the same
// error. It does so wherever the bytes are divided, wherever Next stops, whenever
// TryNext is called, and whatever is wrong with the bytes.
func TestParkedStreamReturnsWhatNextReturns(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				made := emptyBuffers(t)
				body, end := drawBody(rt, t, frame), rapid.SampledFrom([]error{io.EOF, errors.New("reset")}).Draw(rt, "end")
				next := streamOf(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(end)))
				want, wantErr := drain(next)

				arrived := rapid.IntRange(0, len(body)).Draw(rt, "arrived")
				byNext := 0
				if all, _ := drain(&restStream{body: io.NopCloser(bytes.NewReader(body[:arrived])), source: next.source}); len(all) > 0 {
					byNext = rapid.IntRange(0, len(all)).Draw(rt, "by Next")
				}
				p := park(t, body[:arrived], byNext)
				for rest := body[arrived:]; len(rest) > 0; {
					n := rapid.IntRange(1, len(rest)).Draw(rt, "bytes")
					p.body.deliver(rest[:n])
					rest = rest[n:]
					if rapid.Bool().Draw(rt, "TryNext") {
						p.read()
					}
				}
				p.end(end)

				if !equality.Semantic.DeepEqual(p.events, want) {
					rt.Errorf("got %d events, want %d, and the same", len(p.events), len(want))
				}
				if failure.Of(p.err) != failure.Of(wantErr) || errors.Is(p.err, io.EOF) != errors.Is(wantErr, io.EOF) {
					rt.Errorf("end: got %v, want %v", p.err, wantErr)
				}
				checkSecrecy(t, p.err)
				_ = p.stream.Close()
				checkCleared(t, made())
			})
		})
	}
}

// drawBody draws the events of a stream, which may break off or be corrupt.
func drawBody(rt *rapid.T, t *testing.T, frame framing) []byte {
	var body []byte
	for range rapid.IntRange(0, 4).Draw(rt, "events") {
		switch kind := rapid.SampledFrom([]watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error}).Draw(rt, "type"); kind {
		case watch.Error:
			body = append(body, frame(t, kind, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410})...)
		default:
			object := named(rapid.SampledFrom([]string{"tls", "other"}).Draw(rt, "name"))
			object.Annotations = map[string]string{"text": rapid.StringMatching(`[a-z"\\{}\[\]\n]{0,20}`).Draw(rt, "text")}
			object.Data["large"] = bytes.Repeat([]byte("x"), rapid.SampledFrom([]int{0, 100, 2000}).Draw(rt, "size"))
			body = append(body, frame(t, kind, object)...)
		}
	}
	if len(body) > 0 && rapid.Bool().Draw(rt, "breaks off") {
		body = body[:rapid.IntRange(0, len(body)).Draw(rt, "length")]
	}
	if len(body) > 4 && rapid.IntRange(0, 3).Draw(rt, "corrupt") == 0 {
		// Another first byte would be another format.
		body[rapid.IntRange(1, len(body)-1).Draw(rt, "offset")] = rapid.SampledFrom([]byte(" \x00\xff\"\\{}[],:1a")).Draw(rt, "byte")
	}
	return body
}

func checkCleared(t testing.TB, buffers []*bytes.Buffer) {
	t.Helper()
	for _, buffer := range buffers {
		if buffer.Len() != 0 || bytes.Contains(buffer.AvailableBuffer()[:buffer.Cap()], []byte("canary")) {
			t.Error("a buffer holds the object")
		}
	}
}

// All events are returned, whatever the size of the pieces. In between the stream holds
// no buffer, and the connection's goroutine decodes nothing.
func TestParkedStreamPieces(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			first, second := frame(t, watch.Added, canarySecret()), frame(t, watch.Modified, canarySecret())
			for size := 1; size <= len(first)+len(second); size++ {
				p := park(t, nil, 0)
				made := 0
				p.stream.source.resource.NewObject = func() runtime.Object { made++; return &corev1.Secret{} }
				for piece := range slices.Chunk(append(bytes.Clone(first), second...), size) {
					before := made
					p.body.deliver(piece)
					if made != before {
						t.Fatalf("%d bytes: Data has decoded an object", size)
					}
					p.read()
				}
				if len(p.events) != 2 || p.stream.frames != nil {
					t.Fatalf("%d bytes: got %d events, and a buffer: %v, want 2 and none", size, len(p.events), p.stream.frames != nil)
				}
				if p.end(io.EOF); p.err != io.EOF { //nolint:errorlint // callers compare it
					t.Fatalf("%d bytes: got %v, want io.EOF", size, p.err)
				}
			}
		})
	}
}

// Wake is called once for each TryNext that has returned false, when there is something.
func TestParkedStreamWakes(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			event := bytes.TrimSpace(frame(t, watch.Added, canarySecret()))
			tests := map[string]struct {
				arrived []byte
				after   func(*parked)
				want    int
			}{
				"nothing":           {nil, func(*parked) {}, 0},
				"an event, in Park": {event, func(*parked) {}, 1},
				"an event":          {nil, func(p *parked) { p.body.deliver(event) }, 1},
				"two events":        {nil, func(p *parked) { p.body.deliver(event); p.body.deliver(event) }, 1},
				"half an event":     {event[:9], func(p *parked) { p.body.deliver(event[9 : len(event)-1]) }, 0},
				"the end":           {nil, func(p *parked) { p.body.receiver.End(io.EOF) }, 1},
				"both":              {nil, func(p *parked) { p.body.deliver(event); p.body.receiver.End(io.EOF) }, 1},
				"half and the end":  {nil, func(p *parked) { p.body.deliver(event[:9]); p.body.receiver.End(io.EOF) }, 1},
				"nothing, closed": {nil, func(p *parked) {
					_ = p.stream.Close()
					p.body.deliver(event)
					p.body.receiver.End(io.EOF)
				}, 0},
			}
			for name, test := range tests {
				p := park(t, test.arrived, 0)
				if test.after(p); p.wakes != test.want {
					t.Errorf("%s: Wake: got %d calls, want %d", name, p.wakes, test.want)
				}
			}
		})
	}
}

// What Next has read beyond its last event is returned by TryNext, with the rest.
func TestParkLosesNothing(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			var body []byte
			for range 3 {
				body = append(body, frame(t, watch.Modified, canarySecret())...)
			}
			for arrived := range body {
				complete, _ := drain(streamOf(bytes.NewReader(body[:arrived])))
				for byNext := range len(complete) + 1 {
					p := park(t, body[:arrived], byNext)
					p.read()
					p.body.deliver(body[arrived:])
					p.end(io.EOF)
					if len(p.events) != 3 || !errors.Is(p.err, io.EOF) {
						t.Fatalf("%d bytes, %d events by Next: got %d events and %v, want 3 and io.EOF", arrived, byNext, len(p.events), p.err)
					}
				}
			}
		})
	}
}

// Only the HTTP/2 client's bodies can be parked. Next still works for others.
func TestParkOrdinaryBody(t *testing.T) {
	stream := streamOf(bytes.NewReader(protobufFrame(t, watch.Added, canarySecret())))
	if stream.Park(&parked{t: t}) {
		t.Error("Park: got true, want false for a body that only Read can read")
	}
	if event, err := stream.Next(); err != nil || event.Type != watch.Added {
		t.Errorf("Next after Park: got %s and %v, want the event", event.Type, err)
	}
}

// While TryNext decodes, the connection's goroutine does not wait for it, and a Close
// leaves the bytes to it.
func TestWhileTryNextDecodes(t *testing.T) {
	frame := protobufFrame(t, watch.Modified, canarySecret())
	tests := map[string]func(*parked){
		"much arrives": func(p *parked) { p.body.deliver(bytes.Repeat(frame, 1000)) }, // the buffer grows
		"little arrives": func(p *parked) {
			if p.body.deliver(frame[:1]); p.body.unpaid() != len(frame)+1 {
				t.Errorf("got %d bytes without credit, want all: a frame is still in memory", p.body.unpaid())
			}
		},
		"Close": func(p *parked) {
			if _ = p.stream.Close(); p.stream.frames == nil {
				t.Error("Close has returned the bytes to the pool that TryNext decodes")
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			made := emptyBuffers(t)
			p := park(t, frame, 0)
			decoding, decode, read := make(chan struct{}), make(chan struct{}), make(chan watch.Event, 1)
			p.stream.source.resource.NewObject = func() runtime.Object {
				close(decoding)
				<-decode
				return &corev1.Secret{}
			}
			go func() {
				event, _, err := p.stream.TryNext()
				if err != nil {
					t.Error(err)
				}
				read <- event
			}()
			<-decoding
			test(p)
			close(decode)
			if got, ok := (<-read).Object.(*corev1.Secret); !ok || string(got.Data["password"]) != canary {
				t.Errorf("the event that was being decoded: got another object than was sent")
			}
			_ = p.stream.Close()
			if _, ok, err := p.stream.TryNext(); !ok || err == nil || p.stream.frames != nil {
				t.Errorf("TryNext after Close: got %v and %v, want an error, and no buffer", ok, err)
			}
			checkCleared(t, made())
		})
	}
}

// Data, TryNext and Close may run at the same time. No buffer keeps a byte after that.
func TestCloseBesideDataAndTryNext(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			body := frame(t, watch.Modified, canarySecret())
			for round := range 50 {
				made := emptyBuffers(t)
				wakes := make(wakeChannel, 1)
				fake := &fakeBody{arrived: bytes.NewReader(nil)}
				stream := streamOf(nil)
				stream.body = fake
				stream.Park(wakes)
				var group sync.WaitGroup
				group.Go(func() {
					for piece := range slices.Chunk(bytes.Repeat(body, 5), 100) {
						fake.deliver(piece)
					}
					fake.receiver.End(io.EOF)
				})
				ended := make(chan struct{})
				group.Go(func() {
					for {
						select {
						case <-wakes:
						case <-ended:
						}
						for ok, err := true, error(nil); ok; {
							if _, ok, err = stream.TryNext(); err != nil {
								return
							}
						}
					}
				})
				group.Go(func() {
					for range round {
						fake.Consumed(0)
					}
					_ = stream.Close()
					close(ended)
				})
				group.Wait()
				checkCleared(t, made())
				if stream.frames != nil {
					t.Fatal("a closed stream holds a buffer")
				}
			}
		})
	}
}

// wakeChannel has a value while there is a Wake.
type wakeChannel chan struct{}

func (w wakeChannel) Wake(bool)                { w <- struct{}{} }
func (w wakeChannel) TakeBookmark(string) bool { return false }

// A parked stream is small: there are a hundred thousand of them.
func TestParkedStreamIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(restStream{}); got > 80 {
		t.Errorf("a restStream: got %d bytes, want 80 at most", got)
	}
	p := park(t, jsonFrame(t, watch.Added, canarySecret()), 1)
	if p.stream.json != nil || p.stream.frames != nil {
		t.Error("a quiet stream holds the decoder of Next, or a buffer")
	}
}

// FuzzParkedStream compares a parked stream with Next, for any body.
func FuzzParkedStream(f *testing.F) {
	for _, frame := range framings {
		f.Add(append(frame(f, watch.Added, canarySecret()), frame(f, watch.Modified, named("other"))...), uint16(1))
		f.Add(frame(f, watch.Bookmark, named("")), uint16(7))
	}
	f.Add([]byte(`{"type":"ADDED","object":{}}{"type":"ADDED","object":null}{}`), uint16(3))
	f.Add([]byte(`{"type":"ADDED","object":{"\"}]":"\\"}} null [{}] "x\"" 1 tr`), uint16(1))
	f.Add([]byte("<html>"), uint16(2))
	f.Fuzz(func(t *testing.T, body []byte, size uint16) {
		want, wantErr := drain(streamOf(bytes.NewReader(body)))
		p := park(t, nil, 0)
		for piece := range slices.Chunk(body, int(size)+1) {
			p.body.deliver(piece)
			if size%2 == 0 {
				p.read()
			}
		}
		p.end(io.EOF)
		checkSecrecy(t, p.err)
		if !equality.Semantic.DeepEqual(p.events, want) {
			t.Fatalf("got %d events, want %d, and the same", len(p.events), len(want))
		}
		got, wanted := failure.Of(p.err), failure.Of(wantErr)
		if errors.Is(p.err, io.EOF) != errors.Is(wantErr, io.EOF) || got != wanted && got != failure.Malformed {
			t.Errorf("end: got %s (%v), want %s (%v), or Malformed", got, p.err, wanted, wantErr)
		}
	})
}
