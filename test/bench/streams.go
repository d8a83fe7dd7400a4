// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/test/network"
)

// sample is what streams has counted until one moment.
type sample struct {
	at       time.Time
	open     int64 // streams
	requests int64 // sent so far, answered or not
	dials    int64 // begun so far
	received int64 // bytes so far, of TLS records, if they are counted
}

// streams counts a client's dials, requests and bytes, and its open watches. To count in the client costs next to
// nothing. To ask the server, which writes a megabyte of metrics, would disturb the measurement.
type streams struct{ open, requests, dials, received atomic.Int64 }

// countRequests makes the clients of a configuration count requests and open watches, which costs a little.
func (s *streams) countRequests(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{s, next} })
}

// countDials makes the clients of a configuration count dials.
func (s *streams) countDials(config *rest.Config) {
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} // as client-go has it
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
}

// countBytes makes the clients of a configuration count the bytes that they receive. It returns their connections, so
// that they can be cut.
func (s *streams) countBytes(config *rest.Config) *network.Network {
	connections := network.New(config.Dial)
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connections.Dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{conn, &s.received}, nil
	}
	return connections
}

// countedConn counts the bytes that are read.
type countedConn struct {
	net.Conn
	received *atomic.Int64
}

// Read implements net.Conn.
func (c *countedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.received.Add(int64(n))
	return n, err
}

func (s *streams) sample() sample {
	return sample{time.Now(), s.open.Load(), s.requests.Load(), s.dials.Load(), s.received.Load()}
}

// countingTransport counts requests, and accepted watches until their bodies end.
type countingTransport struct {
	streams *streams
	next    http.RoundTripper
}

// WrappedRoundTripper returns the inner transport to client-go.
func (c *countingTransport) WrappedRoundTripper() http.RoundTripper { return c.next }

// RoundTrip implements http.RoundTripper.
func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	c.streams.requests.Add(1)
	response, err := c.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK && request.URL.Query().Get("watch") != "" {
		c.streams.open.Add(1)
		over := sync.OnceFunc(func() { c.streams.open.Add(-1) })
		if parked, ok := response.Body.(h2.Body); ok {
			response.Body = &countedParkedBody{parked, over}
		} else {
			response.Body = &countedBody{response.Body, over}
		}
	}
	return response, err
}

// countedBody calls over at its end, or when it is closed.
type countedBody struct {
	io.ReadCloser
	over func()
}

// Read implements io.Reader.
func (c *countedBody) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if err != nil {
		c.over()
	}
	return n, err
}

// Close implements io.Closer.
func (c *countedBody) Close() error {
	c.over()
	return c.ReadCloser.Close()
}

// countedParkedBody is a countedBody that does not hide how refwatch receives its data.
type countedParkedBody struct {
	h2.Body
	over func()
}

// Read implements io.Reader.
func (c *countedParkedBody) Read(into []byte) (int, error) {
	n, err := c.Body.Read(into)
	if err != nil {
		c.over()
	}
	return n, err
}

// Close implements io.Closer.
func (c *countedParkedBody) Close() error {
	c.over()
	return c.Body.Close()
}

// Receive implements h2.Body.
func (c *countedParkedBody) Receive(r h2.Receiver) {
	c.Body.Receive(&countedReceiver{r, c.over})
}

// countedReceiver calls over at the end of a body.
type countedReceiver struct {
	h2.Receiver
	over func()
}

// End implements h2.Receiver.
func (c *countedReceiver) End(err error) {
	c.over()
	c.Receiver.End(err)
}
