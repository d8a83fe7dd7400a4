// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/refwatch/refwatch/internal/redact"
)

// Makes a connection as client-go would.

var (
	// errUseBase is returned if the connections to a server are not this package's
	// business: the server does not speak HTTP/2, or the base transport does not.
	errUseBase = redact.New("the server is used through the base transport")
	// errTaken ends the request that made a connection. It is never sent.
	errTaken = redact.New("the connection was taken")
)

// dialHTTP2 makes a connection to a server that speaks HTTP/2.
//
// That way is base's own: a clone of its *http.Transport connects, with its Dial,
// proxy, TLS configuration and time-outs. The clone hands the connection over when
// HTTP/2 was negotiated, by the documented hook TLSNextProto. If HTTP/1.1 was
// negotiated, the connection is closed before it carries a request. When ctx ends, the
// attempt ends. watch is the request that needs the connection, and not sent.
func dialHTTP2(ctx context.Context, base http.RoundTripper, watch *http.Request) (*tls.Conn, error) {
	// Without the header of watch: an invalid one must not fail the dial, for which others wait.
	request := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: watch.URL.Host, Path: "/"}, Header: http.Header{},
	}
	request = request.WithContext(ctx)
	refresh(base, request)
	original := transportOf(base)
	if original == nil || original.DisableKeepAlives || hasOtherHooks(original) {
		return nil, errUseBase
	}
	clone := original.Clone() // which also completes the configuration of original
	if original.TLSNextProto["h2"] == nil {
		return nil, errUseBase
	}
	var keep func() bool
	clone.DialContext = abortable(ctx, clone, &keep)
	if proxy := clone.Proxy; proxy != nil {
		clone.Proxy = func(*http.Request) (*url.URL, error) { return proxy(watch) }
	}
	taken := make(chan *tls.Conn, 1)
	clone.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		"h2": func(_ string, c *tls.Conn) http.RoundTripper {
			taken <- c
			return fails{errTaken}
		},
	}
	http1 := false
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { // only for HTTP/1.1
		http1 = true
		_ = info.Conn.Close()
	}}
	response, err := clone.RoundTrip(request.WithContext(httptrace.WithClientTrace(ctx, trace)))
	if response != nil {
		_ = response.Body.Close()
	}
	switch {
	case http1:
		return nil, errUseBase
	case !errors.Is(err, errTaken):
		return nil, err
	}
	c := <-taken
	if !keep() {
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// hasOtherHooks reports whether t dials by hooks that cannot be aborted, or that abortable
// does not replace. client-go uses DialContext only.
func hasOtherHooks(t *http.Transport) bool {
	dial, dialTLS := t.Dial, t.DialTLS //nolint:staticcheck // deprecated, and honored
	return dial != nil && t.DialContext == nil || dialTLS != nil || t.DialTLSContext != nil
}

// abortable returns the dial function of t, which obeys ctx: net/http gives a dial a
// context of its own, and goes on with it when the request has ended. What it dialled
// is closed when ctx ends, until keep is called.
func abortable(ctx context.Context, t *http.Transport, keep *func() bool) func(_ context.Context, network, address string) (net.Conn, error) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(_ context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err == nil {
			*keep = context.AfterFunc(ctx, func() { _ = c.Close() })
		}
		return c, err
	}
}

// refresh lets client-go look for new CA files: it does so when a request passes. This
// one has ended before it begins.
func refresh(base http.RoundTripper, request *http.Request) {
	if _, plain := base.(*http.Transport); plain {
		return
	}
	ctx, cancel := context.WithCancel(request.Context())
	cancel()
	if response, err := base.RoundTrip(request.WithContext(ctx)); err == nil {
		_ = response.Body.Close()
	}
}

// transportOf returns the transport of net/http within t, or nil.
func transportOf(t http.RoundTripper) *http.Transport {
	for {
		switch within := t.(type) {
		case *http.Transport:
			return within
		case utilnet.RoundTripperWrapper:
			t = within.WrappedRoundTripper()
		default:
			return nil
		}
	}
}

// fails is a RoundTripper that fails.
type fails struct{ err error }

func (f fails) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }
