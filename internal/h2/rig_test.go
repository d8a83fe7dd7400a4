// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// peer is the server's side of a connection, in a bubble. It writes what the test
// says, and notes what the client writes.
type peer struct {
	t       *testing.T
	c       *conn
	net     net.Conn
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	events  *eventLog

	mu     sync.Mutex
	frames []string // what the client wrote, without the preface's
	ping   [8]byte  // the last PING of the client
}

// withPeer runs test in a bubble, with a connection that has settled.
func withPeer(t *testing.T, test func(*testing.T, *peer), settings ...http2.Setting) {
	t.Helper()
	withBarePeer(t, func(t *testing.T, p *peer) {
		p.send(p.framer.WriteSettings(settings...))
		p.sent()
		test(t, p)
	})
}

// withBarePeer runs test in a bubble, with a connection whose server has sent nothing.
func withBarePeer(t *testing.T, test func(*testing.T, *peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t)
		test(t, p)
		p.c.close()
		<-p.c.done
	})
}

func newPeer(t *testing.T) *peer {
	client, server := net.Pipe()
	p := &peer{t: t, net: server, events: &eventLog{}}
	p.encoder = hpack.NewEncoder(&p.block)
	p.framer = http2.NewFramer(server, server)
	p.framer.AllowIllegalWrites = true
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go p.read()
	c, err := newConn(client, p.events, connOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.c = c
	return p
}

func (p *peer) read() {
	defer func() { _ = p.net.Close() }()
	if _, err := io.ReadFull(p.net, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	for {
		f, err := p.framer.ReadFrame()
		if err != nil {
			return
		}
		p.note(f)
	}
}

func (p *peer) note(f http2.Frame) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprint(f.Header().Type)
	if id := f.Header().StreamID; id != 0 {
		s += fmt.Sprintf(" %d", id)
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if f.StreamEnded() {
			s += " END_STREAM"
		}
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			s += " END_STREAM"
		}
	case *http2.RSTStreamFrame:
		s += " " + f.ErrCode.String()
	case *http2.GoAwayFrame:
		s += " " + f.ErrCode.String()
	case *http2.WindowUpdateFrame:
		s += fmt.Sprintf(" %d", f.Increment)
	case *http2.PingFrame:
		if f.IsAck() {
			s += fmt.Sprintf(" ack %x", f.Data)
		} else {
			p.ping = f.Data
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			s += " ack"
		}
	}
	p.frames = append(p.frames, s)
}

// sent returns what the client has written since the last call.
func (p *peer) sent() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	frames := p.frames
	p.frames = nil
	return frames
}

func (p *peer) wantSent(want ...string) {
	p.t.Helper()
	if got := p.sent(); !slices.Equal(got, want) {
		p.t.Errorf("the client sent %q, want %q", got, want)
	}
}

func (p *peer) send(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("the server cannot write: %v", err)
	}
}

// pong acknowledges the last PING of the client.
func (p *peer) pong() {
	p.mu.Lock()
	data := p.ping
	p.mu.Unlock()
	p.send(p.framer.WritePing(true, data))
	synctest.Wait()
}

func (p *peer) header(id uint32, end bool, fields ...string) {
	p.t.Helper()
	p.send(p.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: end,
	}))
}

// encode encodes names and values in turn.
func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.send(p.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return p.block.Bytes()
}

func (p *peer) data(id uint32, text string) { p.send(p.framer.WriteData(id, false, []byte(text))) }
func (p *peer) end(id uint32, text string)  { p.send(p.framer.WriteData(id, true, []byte(text))) }

// get starts a request.
func (p *peer) get(ctx context.Context) *answer {
	p.t.Helper()
	return p.request(newRequest(ctx, p.t))
}

func newRequest(ctx context.Context, t *testing.T) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func (p *peer) request(req *http.Request) *answer {
	p.t.Helper()
	if !p.c.reserve() {
		p.t.Fatal("the connection has no slot")
	}
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.resp, a.err = p.c.roundTrip(req, nil)
		if a.err == nil {
			a.body = a.resp.Body.(Body)
		}
	}()
	synctest.Wait()
	return a
}

// open opens the stream with the given id, whose body a sink takes.
func (p *peer) open(id uint32) (*answer, *sink) {
	p.t.Helper()
	a := p.get(p.t.Context())
	p.header(id, false, ":status", "200")
	<-a.done
	if a.err != nil {
		p.t.Fatalf("roundTrip: %v", a.err)
	}
	s := &sink{}
	a.body.Receive(s)
	p.sent()
	return a, s
}

// answer is what roundTrip returned; valid when done is closed.
type answer struct {
	done chan struct{}
	resp *http.Response
	body Body
	err  error
}

// sink is a Receiver that consumes everything, unless hold is set.
type sink struct {
	hold   bool
	onData func([]byte) // may be nil

	mu   sync.Mutex
	text strings.Builder
	ends []error
}

func (s *sink) Data(p []byte) int {
	s.mu.Lock()
	s.text.Write(p)
	s.mu.Unlock()
	if s.onData != nil {
		s.onData(p)
	}
	if s.hold {
		return 0
	}
	return len(p)
}

func (s *sink) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, err)
}

func (s *sink) got() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// ended returns the error of End, nil before it. Two calls are one too many.
func (s *sink) ended(t *testing.T) error {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ends) > 1 {
		t.Errorf("End was called %d times", len(s.ends))
	}
	if len(s.ends) == 0 {
		return nil
	}
	return s.ends[0]
}

// eventLog notes a connection's events.
type eventLog struct {
	mu    sync.Mutex
	names []string
}

func (l *eventLog) note(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
}

func (l *eventLog) slotFreed(connection) { l.note("slotFreed") }
func (l *eventLog) idle(connection)      { l.note("idle") }
func (l *eventLog) gone(connection)      { l.note("gone") }

func (l *eventLog) take() []string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.names
	l.names = nil
	return names
}
