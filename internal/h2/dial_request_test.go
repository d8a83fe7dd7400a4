// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A host may be a link-local address with a zone.
func TestDialOfAnAddressWithAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		config := server.config()
		config.ServerName = "server"
		var dialled string
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled = address
			return server.dial(ctx, network, address)
		}
		ctx := WithParking(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://[fe80::1%25lo]:6443/api?watch=true", nil)
		check(t, err)
		response, err := clientFor(t, config).Do(request)
		check(t, err)
		defer func() { _ = response.Body.Close() }()
		if dials, _ := server.seen(); dialled != "[fe80::1%lo]:6443" || dials != 1 {
			t.Errorf("got %d dials, the last one of %s, want one of [fe80::1%%lo]:6443", dials, dialled)
		}
	})
}

// traceKey is a key of values that a program puts into its contexts.
type traceKey struct{}

// Dial and Proxy get what the base transport would give them for the same request: the
// values of its context, and the request. The end of the request does not end the dial.
func TestDialGetsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, func(s *site) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1} })
		config := server.config()
		var dialled, asked []string
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(900 * time.Millisecond) // the first one outlives its request
			value, _ := ctx.Value(traceKey{}).(string)
			dialled = append(dialled, value)
			return server.dial(ctx, network, address)
		}
		config.Proxy = func(r *http.Request) (*url.URL, error) {
			value, _ := r.Context().Value(traceKey{}).(string)
			asked = append(asked, value+" "+r.URL.String()+" "+r.Header.Get("User-Agent"))
			return nil, nil //nolint:nilnil // no proxy
		}
		config.UserAgent = "agent"
		c := clientFor(t, config)
		got := make(chan error)
		begin := func(value string, timeout time.Duration) {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), traceKey{}, value), timeout)
			response, err := c.get(ctx, "/api?watch=true&of="+value)
			got <- err
			if err == nil {
				<-t.Context().Done()
				_ = response.Body.Close()
			}
			cancel()
		}
		go begin("first", time.Second/2)
		time.Sleep(time.Second / 4)
		go begin("second", time.Minute)
		if first, second := <-got, <-got; first == nil || second != nil {
			t.Fatalf("got %v and %v, want the time-out of the first only", first, second)
		}
		go begin("third", time.Minute)
		check(t, <-got)
		if got, want := strings.Join(dialled, ", "), "first, third"; got != want {
			t.Errorf("values of the contexts of dials: got %q, want %q", got, want)
		}
		const want = "first https://server/api?watch=true&of=first agent, third https://server/api?watch=true&of=third agent"
		if got := strings.Join(asked, ", "); got != want {
			t.Errorf("the proxy of requests:\ngot  %q\nwant %q", got, want)
		}
	})
}

// An invalid header of the request that has caused a dial fails that request, and not the
// dial, for which others wait.
func TestDialOfAnInvalidRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		c := clientFor(t, server.config())
		ctx := WithParking(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://server/api?watch=true", nil)
		check(t, err)
		request.Header.Set("X-Id", "a\nb")
		if response, err := c.transport.RoundTrip(request); err == nil {
			_ = response.Body.Close()
			t.Error("got a response, want an error")
		}
		if dials, _ := server.seen(); dials != 1 {
			t.Errorf("dials for the invalid request: got %d, want 1", dials)
		}
		c.watch()
		if dials, _ := server.seen(); dials != 1 {
			t.Errorf("dials after a watch: got %d, want 1", dials)
		}
	})
}
