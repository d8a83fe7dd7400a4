// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func protoField(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// frameOfKind returns an ADDED event of the canary Secret with a TypeMeta of those bytes.
func frameOfKind(t *testing.T, typeMeta []byte) []byte {
	t.Helper()
	object, err := canarySecret().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := slices.Concat(protobufPrefix, protoField(1, typeMeta), protoField(2, object))
	return slices.Concat(protoField(1, []byte("ADDED")), protoField(2, protoField(1, unknown)))
}

// Decoders ignore unknown fields of a TypeMeta, which may have any size and hold anything. A resource lasts as long as
// the program, and keeps none of them.
func TestKnownKindKeepsNoData(t *testing.T) {
	meta := slices.Concat(protoField(1, []byte("v1")), protoField(2, []byte("Secret")), protoField(99, bytes.Repeat([]byte(canary), 10_000)))
	stream := streamOf(nil)
	event, err := stream.decodeProtobuf(frameOfKind(t, meta))
	if err != nil {
		t.Skipf("client-go refuses it: %v", err)
	}
	if got := event.Object.(*corev1.Secret).Name; got != "tls" {
		t.Fatalf("got %q", got)
	}
	if kept := stream.source.resource.kind.meta.Load(); kept != nil && (len(*kept) > 1<<10 || strings.Contains(*kept, canary)) {
		t.Errorf("the resource keeps %d bytes of what a server has sent, with the data in them: %v", len(*kept), strings.Contains(*kept, canary))
	}
}

// orderly is a Waker that handles events at any time, and notes the versions in the order in which it gets them.
type orderly struct {
	t      *testing.T
	stream *restStream
	random *rand.Rand
	due    bool
	got    []string
	taken  int
}

func (o *orderly) Wake(small bool) {
	if o.due {
		o.t.Error("Wake was called twice")
	}
	o.due = true
	if small && o.random.IntN(2) == 0 { // on the goroutine of the connection
		o.read(1 + o.random.IntN(20))
	}
}

func (o *orderly) TakeBookmark(version string) bool {
	if o.due {
		o.t.Error("TakeBookmark was called while an event waits")
	}
	if o.random.IntN(4) == 0 {
		return false
	}
	o.taken++
	o.got = append(o.got, version)
	return true
}

// read handles some events.
func (o *orderly) read(most int) {
	for range most {
		event, ok, err := o.stream.TryNext()
		if err != nil {
			o.t.Fatal(err)
		}
		if !ok {
			o.due = false
			return
		}
		o.got = append(o.got, event.Object.(*corev1.Secret).ResourceVersion)
	}
}

// Events and bookmarks that come in pieces of any size are handled in their order, none is lost, none comes twice, and
// the server gets credit for all.
func TestPiecesKeepTheOrder(t *testing.T) {
	for name, frame := range framings {
		t.Run(name, func(t *testing.T) {
			taken := 0
			for seed := range uint64(10) {
				taken += piecesKeepTheOrder(t, frame, rand.New(rand.NewPCG(seed, 1)))
			}
			if taken == 0 {
				t.Error("no bookmark was taken")
			}
		})
	}
}

func piecesKeepTheOrder(t *testing.T, frame framing, random *rand.Rand) (taken int) {
	body := &fakeBody{arrived: bytes.NewReader(nil)}
	stream := streamOf(nil)
	stream.body = body
	o := &orderly{t: t, stream: stream, random: random}
	stream.source.resource.WithoutManagedFields = random.IntN(2) == 0
	stream.Park(o)
	var want []string
	var pending []byte
	for i := range 80 {
		version := strconv.Itoa(1000 + i)
		want = append(want, version)
		switch secret := managed(random.IntN(3)); {
		case random.IntN(10) < 6:
			pending = append(pending, frame(t, watch.Bookmark, bookmarkAt(version))...)
		default:
			secret.ResourceVersion = version
			if random.IntN(4) == 0 {
				secret.Data["large"] = bytes.Repeat([]byte("x"), random.IntN(3*smallFrames))
			}
			pending = append(pending, frame(t, []watch.EventType{watch.Added, watch.Modified, watch.Deleted}[random.IntN(3)], secret)...)
		}
		for len(pending) > 0 {
			n := len(pending)
			switch random.IntN(4) {
			case 0:
				n = min(n, 1+random.IntN(10))
			case 1:
				n = min(n, 16<<10)
			}
			if random.IntN(5) == 0 { // with the next one
				break
			}
			body.deliver(pending[:n])
			pending = pending[n:]
			if o.due && random.IntN(3) == 0 {
				o.read(1 + random.IntN(5))
			}
		}
	}
	if len(pending) > 0 {
		body.deliver(pending)
	}
	for o.due {
		o.read(10)
	}
	if !slices.Equal(o.got, want) {
		t.Errorf("got\n%v, want\n%v", o.got, want)
	}
	if stream.frames != nil || body.unpaid() != 0 {
		t.Errorf("in the end: got a buffer, or %d bytes without credit", body.unpaid())
	}
	return o.taken
}
