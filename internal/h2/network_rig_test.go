// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dials counts the dials of a network that does not answer.
type dials struct{ begun, open atomic.Int32 }

// connecting waits until its context ends.
func (d *dials) connecting(ctx context.Context, _, _ string) (net.Conn, error) {
	d.begun.Add(1)
	d.open.Add(1)
	defer d.open.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// silent returns a connection to nowhere.
func (d *dials) silent(context.Context, string, string) (net.Conn, error) {
	d.begun.Add(1)
	d.open.Add(1)
	client, _ := net.Pipe()
	return &countedConn{Conn: client, closed: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// cuttable is a network that loses everything after cut.
type cuttable struct {
	site *site

	mu    sync.Mutex
	lost  bool
	conns []*lossyConn
}

func (n *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.site.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	lossy := &lossyConn{Conn: c, network: n}
	n.conns = append(n.conns, lossy)
	return lossy, nil
}

func (n *cuttable) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = true
}

func (n *cuttable) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

func (n *cuttable) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Conn.Close()
	}
}

// lossyConn loses what is written after the cut.
type lossyConn struct {
	net.Conn
	network *cuttable
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.network.isCut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// serveHTTP2 lets serve handle the connections of a site.
func (s *site) serveHTTP2(serve func(c *tls.Conn)) {
	s.TLSConfig.NextProtos = []string{"h2"}
	s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { serve(c) },
	}
}

// serverScript is a server of HTTP/2. It calls respond for each request, until that returns
// false.
func serverScript(c *tls.Conn, respond func(f *http2.Framer, id uint32) bool) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	out := make(writes, 100)
	defer close(out)
	go out.flush(c)
	f := http2.NewFramer(out, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			if !respond(f, frame.StreamID) {
				return
			}
		}
	}
}

// writes are written by another goroutine: a net.Pipe has no buffer, and both sides
// would wait for each other.
type writes chan []byte

func (w writes) Write(p []byte) (int, error) {
	w <- bytes.Clone(p)
	return len(p), nil
}

func (w writes) flush(to io.Writer) {
	for p := range w {
		_, _ = to.Write(p)
	}
}

// found responds with 200 and an open stream.
func found(f *http2.Framer, id uint32) bool { return answerWith(f, id, "200", false) }

// answerWith responds with a header.
func answerWith(f *http2.Framer, id uint32, status string, end bool) bool {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: status})
	p := http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end}
	return f.WriteHeaders(p) == nil
}
