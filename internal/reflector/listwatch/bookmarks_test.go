// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// bookmarkAt returns the object of a bookmark as kube-apiserver sends it.
func bookmarkAt(version string) *corev1.Secret {
	return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
}

// eachParked runs a test for each encoding, with a stream that takes bookmarks and has got one of version 1000.
func eachParked(t *testing.T, run func(t *testing.T, p *parked, frame framing)) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			p := park(t, nil, 0)
			p.takes = true
			p.body.deliver(frame(t, watch.Bookmark, bookmarkAt("1000")))
			p.read()
			if len(p.taken) > 0 || len(p.events) != 1 {
				t.Fatalf("the first bookmark: got %d taken and %d events, want it decoded", len(p.taken), len(p.events))
			}
			run(t, p, frame)
		})
	}
}

// check checks which bookmarks were taken where they arrived, and the versions of all events.
func (p *parked) check(taken, events []string) {
	p.t.Helper()
	p.read()
	var got []string
	for _, event := range p.events {
		got = append(got, event.Object.(*corev1.Secret).ResourceVersion)
	}
	if !slices.Equal(p.taken, taken) || !slices.Equal(got, events) || p.err != nil {
		p.t.Errorf("got the bookmarks %v taken, the events %v and %v; want %v and %v", p.taken, got, p.err, taken, events)
	}
	if p.body.unpaid() != 0 {
		p.t.Errorf("%d bytes without credit", p.body.unpaid())
	}
}

// Once a bookmark was decoded, those of other versions are taken where they arrive. Nothing else is.
func TestBookmarkIsTaken(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		p.body.deliver(frame(t, watch.Bookmark, bookmarkAt("1001")))
		p.body.deliver(frame(t, watch.Bookmark, bookmarkAt("9999")))
		if p.wakes != 0 || p.stream.frames != nil {
			t.Errorf("got %d wakes, want none, and no buffer", p.wakes)
		}
		secret := canarySecret()
		secret.ResourceVersion = "10000"
		p.body.deliver(frame(t, watch.Modified, secret))
		p.check([]string{"1001", "9999"}, []string{"1000", "10000"})
	})
}

// A bookmark does not overtake what came before it, which may wait, be incomplete or be in work.
func TestBookmarkOvertakesNothing(t *testing.T) {
	secret := canarySecret()
	secret.ResourceVersion = "1001"
	type test func(p *parked, event, mark []byte)
	tests := map[string]test{
		"an event that waits": func(p *parked, event, mark []byte) {
			p.body.deliver(event)
			p.body.deliver(mark)
		},
		"an event that is stored": func(p *parked, event, mark []byte) {
			p.body.deliver(event)
			p.wakes = 0
			got, _, _ := p.tryNext()
			p.body.deliver(mark)
			p.events = append(p.events, got)
			p.wakes++
		},
		"an event in two parts": func(p *parked, event, mark []byte) {
			p.body.deliver(event[:10])
			p.body.deliver(slices.Concat(event[10:], mark))
		},
		"with it": func(p *parked, event, mark []byte) { p.body.deliver(slices.Concat(event, mark)) },
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachParked(t, func(t *testing.T, p *parked, frame framing) {
				test(p, frame(t, watch.Modified, secret), frame(t, watch.Bookmark, bookmarkAt("1002")))
				p.check(nil, []string{"1000", "1001", "1002"})
			})
		})
	}
}

// Bytes of an event that are those of a bookmark are none.
func TestBookmarkInAnEvent(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		mark := bytes.TrimSpace(frame(t, watch.Bookmark, bookmarkAt("1001")))
		event := []byte(`{"type":"MODIFIED","object":{"kind":"Secret","apiVersion":"v1","x":` + string(mark) + `,"metadata":{"resourceVersion":"1002"}}}`)
		if p.stream.format == formatProtobuf {
			secret := bookmarkAt("1002")
			secret.Data = map[string][]byte{"x": mark}
			event = frame(t, watch.Modified, secret)
		}
		at := bytes.Index(event, mark)
		p.body.deliver(event[:at])
		p.body.deliver(event[at : at+len(mark)])
		p.body.deliver(event[at+len(mark):])
		p.check(nil, []string{"1000", "1002"})
	})
}

// A form that is known is not learned again, also if the waker takes no bookmark.
func TestKnownFormIsNotLearnedAgain(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		p.takes = false
		for _, version := range []string{"1001", "1002", "1003"} {
			p.body.deliver(frame(t, watch.Bookmark, bookmarkAt(version)))
			p.read()
		}
		p.check(nil, []string{"1000", "1001", "1002", "1003"})
		if got := len(*p.stream.source.resource.bookmarks.known.Load()); got != 1 {
			t.Errorf("got %d forms, want 1", got)
		}
	})
}

// A bookmark is decoded if its frame comes in parts or has another form, or the waker does not take it.
func TestBookmarkIsDecoded(t *testing.T) {
	annotated := bookmarkAt("1001")
	annotated.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	type test struct {
		mark   *corev1.Secret
		parts  int
		passes bool // the waker does not take it
	}
	tests := map[string]test{
		"in parts":         {bookmarkAt("1001"), 2, false},
		"a longer version": {bookmarkAt("10010"), 1, false},
		"annotated":        {annotated, 1, false},
		"not taken":        {bookmarkAt("1001"), 1, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachParked(t, func(t *testing.T, p *parked, frame framing) {
				p.takes = !test.passes
				body := frame(t, watch.Bookmark, test.mark)
				for part := range slices.Chunk(body, (len(body)+test.parts-1)/test.parts) {
					p.body.deliver(part)
				}
				p.check(nil, []string{"1000", test.mark.ResourceVersion})
			})
		})
	}
}

// What is not a bookmark of a valid version is not taken, however much it looks like one.
func TestNoBookmarkIsTaken(t *testing.T) {
	tests := map[string][2]string{
		"another type": {"BOOKMARK", "MODIFIED"},
		"another kind": {"Secret", "Secrex"},
		"no version":   {"1001", "0001"},
		"letters":      {"1001", "1x01"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			eachParked(t, func(t *testing.T, p *parked, frame framing) {
				mark := frame(t, watch.Bookmark, bookmarkAt("1001"))
				p.body.deliver(bytes.Replace(mark, []byte(test[0]), []byte(test[1]), 1))
				if len(p.taken) > 0 || p.wakes != 1 {
					t.Errorf("got the bookmarks %v taken, and %d wakes; want it decoded", p.taken, p.wakes)
				}
			})
		})
	}
}

// A bookmark of which it is not clear where the version stands is decoded each time.
func TestVersionInTwoPlaces(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		twice := func(version string) []byte {
			mark := bookmarkAt(version)
			mark.Namespace = "77777"
			return frame(t, watch.Bookmark, mark)
		}
		p.body.deliver(twice("77777"))
		p.read()
		other := bookmarkAt("77777")
		other.Namespace = "99999" // as if it were the version
		p.body.deliver(frame(t, watch.Bookmark, other))
		p.read()
		p.body.deliver(twice("77778"))
		p.read()
		p.body.deliver(twice("77779"))
		p.check([]string{"77779"}, []string{"1000", "77777", "77777", "77778"})
	})
}

// The forms of the newest bookmarks are known. API servers of two releases may send two in turn.
func TestFormsOfBookmarks(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		var want []string
		for i := range 2 * knownBookmarks {
			version := string(bytes.Repeat([]byte("7"), i+5))
			p.body.deliver(frame(t, watch.Bookmark, bookmarkAt(version)))
			p.read()
			if i >= knownBookmarks {
				want = append(want, version[1:])
			}
			p.body.deliver(frame(t, watch.Bookmark, bookmarkAt(version[1:])))
			p.read()
		}
		if got := len(*p.stream.source.resource.bookmarks.known.Load()); got != knownBookmarks {
			t.Errorf("got %d forms, want %d", got, knownBookmarks)
		}
		if !slices.Equal(p.taken[len(p.taken)-len(want):], want) {
			t.Errorf("got %v taken, want %v at the end", p.taken, want)
		}
	})
}

// No data of a bookmark that has any is kept, and a large one is always decoded.
func TestLargeBookmark(t *testing.T) {
	eachParked(t, func(t *testing.T, p *parked, frame framing) {
		large := bookmarkAt("1001")
		large.Annotations = map[string]string{"a": string(make([]byte, largestBookmark))}
		for range 2 {
			p.body.deliver(frame(t, watch.Bookmark, large))
			p.read()
		}
		p.check(nil, []string{"1000", "1001", "1001"})
	})
}

// Wake says whether TryNext has little to decode.
func TestWakeForLittle(t *testing.T) {
	large := canarySecret()
	large.Data["large"] = bytes.Repeat([]byte("x"), smallFrames)
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			p := park(t, nil, 0)
			p.body.deliver(frame(t, watch.Added, canarySecret()))
			if p.wakes != 1 || !p.small {
				t.Errorf("a small event: got %d wakes, and small is %v", p.wakes, p.small)
			}
			p.read()
			p.body.deliver(frame(t, watch.Modified, large))
			if p.wakes != 1 || p.small {
				t.Errorf("a large event: got %d wakes, and small is %v", p.wakes, p.small)
			}
			p.read()
			p.end(io.EOF)
			if p.small {
				t.Error("the end of a stream is small")
			}
		})
	}
}

// FuzzBookmark compares what is recognized with what a decoder says of the same bytes, for any frame, of which other
// digits are sent in place of the version.
func FuzzBookmark(f *testing.F) {
	for _, frame := range framings {
		f.Add(frame(f, watch.Bookmark, bookmarkAt("1000")), []byte("1001"), uint16(0))
		f.Add(frame(f, watch.Bookmark, named("")), []byte("77"), uint16(3))
		f.Add(frame(f, watch.Bookmark, bookmarkAt("1")), []byte("x"), uint16(20))
		f.Add(frame(f, watch.Modified, named("tls")), []byte("1"), uint16(20))
	}
	f.Fuzz(func(t *testing.T, body, digits []byte, at uint16) {
		p := &parked{t: t, body: &fakeBody{arrived: bytes.NewReader(nil)}, idle: true, takes: true}
		p.stream = streamOf(nil)
		p.stream.body = p.body
		p.stream.Park(p)
		p.body.deliver(body)
		p.read()
		known := p.stream.source.resource.bookmarks.known.Load()
		if known == nil || p.err != nil {
			return
		}
		other := bytes.Clone(body)
		start := int(at)
		if start == 0 { // where it is looked for
			start = (*known)[0].start
		}
		if start+len(digits) > len(other) {
			return
		}
		copy(other[start:], digits)
		p.body.deliver(other)
		if len(p.taken) == 0 {
			return
		}
		events, err := drain(streamOf(bytes.NewReader(other)))
		if !errors.Is(err, io.EOF) || len(events) != 1 || !isBookmark(events[0], p.taken[0]) {
			t.Errorf("%q is taken for a bookmark of version %s: the decoder got %v and %v", other, p.taken[0], events, err)
		}
	})
}

func isBookmark(event watch.Event, version string) bool {
	got, ok := bookmarkVersion(event)
	return ok && got == version
}

// takesNothing is a Waker whose channel has a value after a Wake.
type takesNothing chan struct{}

func (w takesNothing) TakeBookmark(string) bool { return false }

func (w takesNothing) Wake(bool) {
	select {
	case w <- struct{}{}:
	default:
	}
}

// A worker decodes frames while more of them arrive, which moves those that wait.
func TestFramesAreReadOnly(t *testing.T) {
	const total = 300
	frame := protobufFrame(t, watch.Modified, managed(20))
	body, wakes := &fakeBody{arrived: bytes.NewReader(nil)}, make(takesNothing, 1)
	stream := streamOf(nil)
	stream.body = body
	stream.source.resource.WithoutManagedFields = true
	stream.Park(wakes)
	var worker sync.WaitGroup
	worker.Go(func() {
		for got := 0; got < total; {
			_, ok, err := stream.TryNext()
			switch {
			case err != nil:
				t.Error(err)
				return
			case ok:
				got++
			default:
				<-wakes
			}
		}
	})
	for range total {
		body.deliver(frame)
	}
	worker.Wait()
}
