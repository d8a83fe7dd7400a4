// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/h2"
)

// fakeBody is a body whose bytes come from the test: those of arrived by Read, or by
// Receive if they were not read, and later ones by deliver.
type fakeBody struct {
	arrived  *bytes.Reader
	receiver h2.Receiver
	sent     int          // bytes that Data got
	credit   atomic.Int64 // of them, those that were counted as consumed
	untied   bool
	closed   atomic.Bool
}

var _ h2.Body = &fakeBody{}

func (b *fakeBody) Read(p []byte) (int, error) {
	if b.receiver != nil {
		return 0, errors.New("Read after Receive")
	}
	return b.arrived.Read(p)
}

func (b *fakeBody) Receive(r h2.Receiver) {
	b.receiver = r
	if rest, _ := io.ReadAll(b.arrived); len(rest) > 0 {
		b.deliver(rest)
	}
}

func (b *fakeBody) Consumed(n int) { b.credit.Add(int64(n)) }
func (b *fakeBody) Detach()        { b.untied = true }
func (b *fakeBody) Close() error   { b.closed.Store(true); return nil }

// deliver calls Data, whose bytes are valid during the call only.
func (b *fakeBody) deliver(p []byte) {
	lent := bytes.Clone(p)
	b.sent += len(p)
	b.credit.Add(int64(b.receiver.Data(lent)))
	for i := range lent {
		lent[i] = '!'
	}
}

// unpaid returns how many bytes the server has no credit for.
func (b *fakeBody) unpaid() int { return b.sent - int(b.credit.Load()) }

// parked is a parked stream of secrets, and what it has returned.
type parked struct {
	t      testing.TB
	stream *restStream
	body   *fakeBody
	wakes  int // calls of Wake that no TryNext has followed
	idle   bool
	small  bool // said the last Wake
	takes  bool // bookmarks where they arrive
	taken  []string
	events []watch.Event
	err    error
}

// park parks a stream of which some bytes have arrived. Next returns the first events.
func park(t testing.TB, arrived []byte, byNext int) *parked {
	t.Helper()
	p := &parked{t: t, body: &fakeBody{arrived: bytes.NewReader(arrived)}, idle: true}
	p.stream = streamOf(nil)
	p.stream.body = p.body
	for range byNext {
		event, err := p.stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		p.events = append(p.events, event)
	}
	if !p.stream.Park(p) || !p.body.untied {
		t.Fatalf("Park: got false, or the stream is still tied to the context of its request")
	}
	return p
}

// Wake implements Waker.
func (p *parked) Wake(small bool) {
	p.small = small
	if p.wakes++; p.wakes > 1 || !p.idle {
		p.t.Errorf("Wake: got %d calls, and TryNext has returned false: %v, want one call after that", p.wakes, p.idle)
	}
	p.idle = false
}

// read calls TryNext after Wake until it returns false or an error.
func (p *parked) read() {
	p.t.Helper()
	if p.wakes == 0 && p.err == nil {
		if event, ok, err := p.stream.TryNext(); ok {
			p.t.Fatalf("TryNext without Wake: got %s and %v, want nothing", event.Type, err)
		}
		return
	}
	p.wakes = 0
	for p.err == nil {
		event, ok, err := p.tryNext()
		if !ok {
			p.idle = true
			if p.stream.frames != nil && p.stream.frames.complete > 0 || p.body.unpaid() != 0 {
				p.t.Errorf("TryNext has returned all: got complete frames, or %d bytes without credit, want neither", p.body.unpaid())
			}
			return
		}
		if p.err = err; err == nil {
			p.events = append(p.events, event)
		}
	}
}

func (p *parked) tryNext() (event watch.Event, ok bool, err error) {
	p.t.Helper()
	if event, ok, err = p.stream.TryNext(); ok && p.wakes > 0 {
		p.t.Errorf("TryNext: got an event and a Wake, want only one of them")
	}
	return event, ok, err
}

// end ends the body and reads the rest.
func (p *parked) end(err error) {
	p.t.Helper()
	p.body.receiver.End(err)
	p.read()
	if p.err == nil {
		p.t.Error("TryNext after the end of the body: got no error")
	}
}

// TakeBookmark implements Waker.
func (p *parked) TakeBookmark(version string) bool {
	if p.takes {
		p.taken = append(p.taken, version)
	}
	return p.takes
}
