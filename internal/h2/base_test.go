// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server without HTTP/2 has its watches through the base transport, for a minute, two
// minutes and so on up to an hour. It sees one connection more than without a Transport,
// and no broken request.
func TestTransportWithAServerWithoutHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, func(s *site) {
			s.Protocols = new(http.Protocols)
			s.Protocols.SetHTTP1(true)
		})
		c := clientFor(t, server.config())
		wantDials := func(want int) {
			t.Helper()
			if r := c.watch(); r.Proto != "HTTP/1.1" {
				t.Errorf("protocol: got %s, want HTTP/1.1", r.Proto)
			}
			dials, requests := server.seen()
			others := slices.DeleteFunc(requests, func(r string) bool { return r == "GET /api?watch=true HTTP/1.1" })
			if dials != want || len(others) > 0 {
				t.Errorf("got %d dials and also requests %q, want %d dials", dials, others, want)
			}
		}
		wantDials(2) // a watch of HTTP/1.1 has a connection of its own, and one was closed
		wantDials(3)
		dials := 3
		for wait := useBaseFirst; wait < 2*useBaseMost; wait *= 2 {
			time.Sleep(min(wait, useBaseMost) - time.Nanosecond)
			dials++
			wantDials(dials)
			time.Sleep(time.Nanosecond)
			dials += 2
			wantDials(dials)
		}
		if server.errors.Len() > 0 {
			t.Errorf("log of the server: got %q, want none", server.errors.String())
		}
	})
}

// One server of two behind a load balancer has no HTTP/2. While the other one has, only an
// opening whose dial has met it goes through the base transport.
func TestTransportWithOneServerWithoutHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		modern := serve(t, func(s *site) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10} })
		old := serve(t, func(s *site) {
			s.TLSConfig.Certificates = []tls.Certificate{modern.ca.issue(t, "server")}
			s.Protocols = new(http.Protocols)
			s.Protocols.SetHTTP1(true)
		})
		var dials atomic.Int32
		config := modern.config()
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials.Add(1)%2 == 1 {
				return old.dial(ctx, network, address)
			}
			return modern.dial(ctx, network, address)
		}
		c := clientFor(t, config)
		count := func(n int) (modern int) {
			for range n {
				if c.watch().ProtoMajor == 2 {
					modern++
				}
			}
			return modern
		}
		count(3) // the first dial has met the old server
		time.Sleep(useBaseFirst)
		if got := count(100); got < 90 {
			t.Errorf("got %d of 100 streams with HTTP/2, want 90", got)
		}
	})
}

// No answer to a list keeps a slow connection busy for seconds: its frames are small, unless they are configured.
func TestFramesOfTheBase(t *testing.T) {
	for name, test := range map[string]struct {
		config *http.HTTP2Config
		want   http.HTTP2Config
	}{
		"nothing is configured": {nil, http.HTTP2Config{MaxReadFrameSize: 16384}},
		"others are configured": {&http.HTTP2Config{PingTimeout: 7}, http.HTTP2Config{PingTimeout: 7, MaxReadFrameSize: 16384}},
		"frames are configured": {&http.HTTP2Config{MaxReadFrameSize: 1 << 20}, http.HTTP2Config{MaxReadFrameSize: 1 << 20}},
	} {
		base := &http.Transport{HTTP2: test.config}
		New(base)
		if got := base.HTTP2; got.MaxReadFrameSize != test.want.MaxReadFrameSize || got.PingTimeout != test.want.PingTimeout {
			t.Errorf("%s: got %+v, want %+v", name, *got, test.want)
		}
	}
	New(fails{errTaken}) // contains none
	if New(http.DefaultTransport); http.DefaultTransport.(*http.Transport).HTTP2 != nil {
		t.Error("the transport of others has got a configuration")
	}
}
