// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// clientConn is a connection that net/http's HTTP/2 client runs.
type clientConn struct {
	conn   *http.ClientConn
	events connectionEvents

	settled  atomic.Bool // the server's first SETTINGS frame has been processed
	reported atomic.Bool // gone was called
	queued   atomic.Bool // a call of report is on its way
}

// newClientConn runs net/http's HTTP/2 client on c. base has the settings of requests.
func newClientConn(c *tls.Conn, events connectionEvents, base *http.Transport) (*clientConn, error) {
	result := &clientConn{events: events}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // TLS is below
	silence, answer := healthTimeouts()
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &settingsWatch{Conn: c, processed: result.settle}, nil
		},
		Protocols:              &protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: answer},
		DisableCompression:     base.DisableCompression,
		MaxResponseHeaderBytes: base.MaxResponseHeaderBytes,
		ResponseHeaderTimeout:  base.ResponseHeaderTimeout,
	}
	conn, err := transport.NewClientConn(context.Background(), "http", "server:443") // an address for form's sake
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	result.conn = conn
	conn.SetStateHook(result.changed)
	return result, nil
}

func (c *clientConn) reserve() bool { return c.settled.Load() && c.conn.Reserve() == nil }

func (c *clientConn) release() { c.conn.Release() }

func (c *clientConn) taken() int { return c.conn.InFlight() }

func (c *clientConn) limit() int {
	if !c.settled.Load() {
		return 0
	}
	return c.conn.Available() + c.conn.InFlight()
}

func (c *clientConn) reason() Reason { return Other }

// probe leaves the check to net/http's own.
func (c *clientConn) probe() {}

// close does not wait for TLS, which announces the end to the server for up to 5 s.
func (c *clientConn) close() { go func() { _ = c.conn.Close() }() }

func (c *clientConn) roundTrip(request *http.Request, _ <-chan struct{}) (*http.Response, error) {
	lent := lend(request)
	response, err := c.conn.RoundTrip(lent.request)
	if err != nil {
		if unprocessed(err) {
			err = redact.Errorf("%w: %w", errUnprocessed, err)
		}
		return nil, err
	}
	lent.takeBack()
	return trim(response, request), nil
}

// isRefusal reports whether an error is that of a stream that the server has refused.
func isRefusal(err error) bool {
	var reset http2.StreamError
	return errors.As(err, &reset) && reset.Code == http2.ErrCodeRefusedStream
}

// unprocessed reports whether an error of net/http means that the server has certainly
// not processed the request. The list is that of net/http's own retries
// (canRetryError). Only the first has a type.
func unprocessed(err error) bool {
	if isRefusal(err) {
		return true
	}
	switch err.Error() {
	case "http2: client conn not usable", "http2: Transport received Server's graceful shutdown GOAWAY":
		return true
	}
	return false
}

// settle is called when the server's first SETTINGS frame has been processed.
func (c *clientConn) settle() {
	c.settled.Store(true)
	c.events.slotFreed(c)
}

// changed is net/http's hook. It may run inside of calls that the pool makes with its
// lock held.
func (c *clientConn) changed(*http.ClientConn) {
	if c.queued.CompareAndSwap(false, true) {
		go c.report()
	}
}

func (c *clientConn) report() {
	c.queued.Store(false)
	if c.conn.Err() != nil {
		if c.reported.CompareAndSwap(false, true) {
			c.events.gone(c)
		}
		return
	}
	c.events.slotFreed(c)
	if c.conn.InFlight() == 0 {
		c.events.idle(c)
	}
}

// settingsWatch notices when the first frame from the server, which is its SETTINGS,
// has been processed: net/http processes what it has read before it reads again. Until
// then net/http expects a limit of 100 streams, and a request above the real one would
// wait on this connection until a stream ends.
type settingsWatch struct {
	*tls.Conn
	processed func() // nil when it was called

	header [frameHeader]byte // of the first frame
	read   int               // bytes read so far
}

// frameHeader is the length of a frame's header; its first three bytes are the length
// of the payload.
const frameHeader = 9

func (w *settingsWatch) Read(p []byte) (int, error) {
	if w.processed == nil {
		return w.Conn.Read(p)
	}
	if w.read >= frameHeader && w.read >= frameHeader+int(binary.BigEndian.Uint32(w.header[:])>>8) {
		w.processed()
		w.processed = nil
		return w.Conn.Read(p)
	}
	n, err := w.Conn.Read(p)
	if w.read < frameHeader {
		copy(w.header[w.read:], p[:n])
	}
	w.read += n
	return n, err
}
