// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// attempts is how often a watch is sent if servers do not process it. net/http has no
	// limit while each new connection drains at once. With three, many openings fail at
	// once on a server that sends GOAWAY to one request in 20.
	attempts = 7
	// refusals is how often a watch is sent to servers that refuse its stream
	// (REFUSED_STREAM): they may have too much to do.
	refusals = 3
	// useBaseFirst is how long the watches of a server go through the base transport when
	// it was seen not to speak HTTP/2: one of several servers behind a load balancer may
	// not. The time doubles each time, up to useBaseMost, until a server speaks HTTP/2.
	useBaseFirst, useBaseMost = time.Minute, time.Hour
)

// Transport is an http.RoundTripper for clients with many watches. It is made by [New].
// Its methods are safe for concurrent use.
type Transport struct {
	base http.RoundTripper

	mu      sync.Mutex
	pools   map[string]*pool   // by authority
	useBase map[string]baseUse // by authority
}

// baseUse is how long the watches of a server go through the base transport.
type baseUse struct {
	until time.Time
	next  time.Duration // how long, the next time
}

// New returns a transport for the watches of a client whose context is from [WithParking].
// It belongs next to base, the transport of client-go, under all wrappers: it is the first of
// [k8s.io/client-go/transport.Wrappers].
//
// Connections for watches are made as base makes its own: with its TLS configuration,
// proxy and Dial, and with reloaded certificates and CA files. Other requests go to base,
// and so do all requests to a server that does not speak HTTP/2. All requests go to base if
// it contains no *http.Transport, or one without HTTP/2 or with Dial, DialTLS or
// DialTLSContext instead of DialContext.
//
// The *http.Transport must be unused, and that of base alone: New limits its HTTP/2 frames, unless they are configured.
func New(base http.RoundTripper) *Transport {
	limitFrames(base)
	return &Transport{base: base, pools: map[string]*pool{}, useBase: map[string]baseUse{}}
}

// limitFrames makes servers send base frames of 16 KiB at most, as they do by default up to Go 1.26. One of 1 MiB,
// which Go 1.27 allows, keeps a slow connection busy for seconds, and all other answers on it seem to be lost.
func limitFrames(base http.RoundTripper) {
	t := transportOf(base)
	if t == nil || t == http.DefaultTransport {
		return
	}
	config := http.HTTP2Config{}
	if t.HTTP2 != nil {
		config = *t.HTTP2
	}
	config.MaxReadFrameSize = cmp.Or(config.MaxReadFrameSize, maxFrame)
	t.HTTP2 = &config
}

// RoundTrip implements http.RoundTripper.
//
// A watch may wait for a connection; the end of its context ends the wait. It is sent
// again on another connection if the server has certainly not processed it: six times at
// most, twice if the server has refused its streams, and not if it has ended the
// connection with an error. It is also sent again if the server does not answer it, or
// resets it as the one before on that connection: three times at most, and less often if
// that does not help. The body of an error ends after 1 MiB.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.roundTrip(uncompressed(request))
	if err != nil {
		return nil, err
	}
	boundErrorBody(response)
	markForeign(response)
	return response, nil
}

// uncompressed returns a request that asks for no compression if it is a watch: that would
// last for the life of the stream, with some 50 KB of memory. Lists are compressed.
func uncompressed(request *http.Request) *http.Request {
	const name = "Accept-Encoding"
	if !isWatch(request) || request.Header.Get(name) != "" {
		return request
	}
	request = request.Clone(request.Context())
	request.Header.Set(name, "identity")
	return request
}

func (t *Transport) roundTrip(request *http.Request) (*http.Response, error) {
	parks := parkingOf(request.Context())
	if parks == nil || !isWatch(request) || t.usesBase(request.URL.Host) {
		parks.take(wayBase)
		return t.base.RoundTrip(request)
	}
	parks.take(wayOwn)
	p := t.poolFor(request.URL.Host)
	ctx := request.Context()
	refusedStreams := 0
	o, err := p.acquire(request, nil)
	for attempt := 1; err == nil; attempt++ {
		var response *http.Response
		response, err = o.pooled.connection.roundTrip(request, o.moved)
		next := p.finish(o, response, err)
		if next != nil {
			o, err = next, nil
			continue
		}
		if isRefusal(err) {
			refusedStreams++
		}
		switch {
		case err == nil || ctx.Err() != nil || attempt == attempts:
			return response, err
		case o.again:
			o, err = p.elsewhere(o)
		case !errors.Is(err, errUnprocessed) || isGoAwayError(err) || refusedStreams == refusals:
			return nil, err
		default:
			o, err = p.acquire(request, o.pooled.connection)
		}
	}
	if errors.Is(err, errUseBase) {
		if !p.lives() {
			t.beginBase(request.URL.Host)
		}
		parks.take(wayBase)
		return t.base.RoundTrip(request)
	}
	return nil, err
}

// isRefusal reports whether an error is that of a stream that the server has refused.
func isRefusal(err error) bool {
	var reset http2.StreamError
	return errors.As(err, &reset) && reset.Code == http2.ErrCodeRefusedStream
}

// isGoAwayError reports whether the server has ended a connection with an error, such as
// ENHANCE_YOUR_CALM, and not to drain it. Only errors of conn have its code.
func isGoAwayError(err error) bool {
	var goAway http2.GoAwayError
	return errors.As(err, &goAway) && goAway.ErrCode != http2.ErrCodeNo
}

// CloseIdleConnections closes the connections that carry no stream, and those of the
// base transport. A connection whose streams were closed just now, so that the server
// has not confirmed it, is closed when the server has, or after 15 s. One with open
// streams is closed after the last of them, unless it takes another one before.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	pools := make([]*pool, 0, len(t.pools))
	for _, p := range t.pools {
		pools = append(pools, p)
	}
	t.mu.Unlock()
	for _, p := range pools {
		p.closeIdle()
	}
	utilnet.CloseIdleConnectionsFor(t.base)
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, by which callers
// find the transport within.
func (t *Transport) WrappedRoundTripper() http.RoundTripper { return t.base }

// isWatch reports whether a request is a watch over TLS.
func isWatch(r *http.Request) bool {
	if r.Method != http.MethodGet || r.URL == nil || r.URL.Scheme != "https" || !strings.Contains(r.URL.RawQuery, "watch=") {
		return false
	}
	if r.Body != nil && r.Body != http.NoBody || r.Header.Get("Upgrade") != "" {
		return false
	}
	value := r.URL.Query().Get("watch")
	return value == "true" || value == "1"
}

func (t *Transport) usesBase(authority string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Now().Before(t.useBase[authority].until)
}

// beginBase makes the base transport serve the watches of a server for a while.
func (t *Transport) beginBase(authority string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, use := time.Now(), t.useBase[authority]
	if now.Before(use.until) {
		return // another request has
	}
	wait := max(use.next, useBaseFirst)
	t.useBase[authority] = baseUse{until: now.Add(wait), next: min(2*wait, useBaseMost)}
}

// endBase forgets that a server does not speak HTTP/2.
func (t *Transport) endBase(authority string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.useBase, authority)
}

func (t *Transport) poolFor(authority string) *pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pools[authority]
	if p == nil {
		p = newPool(t.dial)
		t.pools[authority] = p
	}
	return p
}

// dial makes a connection that a watch needs.
func (t *Transport) dial(ctx context.Context, watch *http.Request, events connectionEvents) (connection, error) {
	c, err := dialHTTP2(ctx, t.base, watch)
	if err != nil {
		return nil, err
	}
	t.endBase(watch.URL.Host)
	silence, answer := healthTimeouts()
	if silence <= 0 {
		silence = math.MaxInt64 // never, as net/http
	}
	return newConn(c, events, connOptions{pingAfter: silence, pingTimeout: answer, counters: countersOf(ctx)})
}
