// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"sync/atomic"

	"github.com/refwatch/refwatch/internal/redact"
)

// What WhyNoBody returns. Logs and pages show these texts.
var (
	errUnmarked  = redact.New("the context is not from WithParking")
	errNotPassed = redact.New("the requests do not pass the transport of ConfigFor: the config of the client has none, or it was replaced")
	errNoHTTP2   = redact.New("the server does not speak HTTP/2 over TLS, or the client's transport does not")
	errHidden    = redact.New("a wrapper of the client's config, or its Timeout, replaces the body of the response")
)

type parkingKey struct{}

// parking is which way the last request has taken that was made with a context.
type parking struct{ way atomic.Int32 }

const (
	wayUnknown int32 = iota // no request has passed a Transport
	wayBase                 // through the base transport
	wayOwn                  // through this package's HTTP/2 client
)

// WithParking marks the requests made with a context: this package's HTTP/2 client sends
// the watches among them, and the body of the response is a [Body]. [WhyNoBody] says why one is
// not. Use a context for one request at a time.
func WithParking(ctx context.Context) context.Context {
	return context.WithValue(ctx, parkingKey{}, &parking{})
}

// WhyNoBody returns why the body of a response is no [Body], though its request had a
// context from [WithParking]: the request did not pass a [Transport], the server does not
// speak HTTP/2 over TLS, or a wrapper of the transport, or the Timeout of the
// [net/http.Client], replaces the body. ctx is that context, and the request the last one
// with it. The error is for people.
func WhyNoBody(ctx context.Context) error {
	p := parkingOf(ctx)
	if p == nil {
		return errUnmarked
	}
	switch p.way.Load() {
	case wayBase:
		return errNoHTTP2
	case wayOwn:
		return errHidden
	}
	return errNotPassed
}

// parkingOf returns nil for a context that is not from WithParking.
func parkingOf(ctx context.Context) *parking {
	p, _ := ctx.Value(parkingKey{}).(*parking)
	return p
}

// take records the way of a request.
func (p *parking) take(way int32) {
	if p != nil {
		p.way.Store(way)
	}
}
