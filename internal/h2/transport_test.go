// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A response is as complete as net/http's.
func TestTransportReturnsCompleteResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		c := clientFor(t, server.config())
		r := c.watch()
		if r.Status != "200 OK" || r.StatusCode != 200 || r.Proto != "HTTP/2.0" || r.ProtoMajor != 2 || r.TLS == nil ||
			r.Header.Get("Content-Type") == "" || r.ContentLength != -1 {
			t.Errorf("response: got %+v, want it complete", r)
		}
		if r.Request == nil || r.Request.URL.String() != "https://server/api?watch=true" {
			t.Errorf("its request: got %+v, want the watch", r.Request)
		}
		if _, requests := server.seen(); len(requests) != 1 || requests[0] != "GET /api?watch=true HTTP/2.0" {
			t.Errorf("requests: got %q, want one watch", requests)
		}
	})
}

// Streams share connections, and each of them may be larger than its window.
func TestTransportReceivesMoreThanAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, size = 3, 5 << 20
		server := serve(t, func(s *site) {
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, size)) })
		})
		c := clientFor(t, server.config())
		for range streams {
			response, err := c.get(t.Context(), "/api?watch=true")
			check(t, err)
			defer func() { _ = response.Body.Close() }()
			if n, err := io.Copy(io.Discard, response.Body); n != size || err != nil {
				t.Errorf("got %d bytes and %v, want %d", n, err, size)
			}
		}
		if dials, _ := server.seen(); dials != 1 {
			t.Errorf("dials: got %d, want 1", dials)
		}
	})
}

// The limit may change while connections are open: new ones teach the new limit.
func TestTransportFollowsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, func(s *site) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 10} })
		c := clientFor(t, server.config())
		for range 10 {
			c.watch()
		}
		server.HTTP2.MaxConcurrentStreams = 2 // for new connections
		for range 6 {
			c.watch()
		}
		if dials, _ := server.seen(); dials != 4 {
			t.Errorf("dials: got %d, want 4", dials)
		}
	})
}

func TestTransportPassesOtherRequestsToTheBase(t *testing.T) {
	upgrade := http.Header{"Upgrade": {"websocket"}}
	tests := map[string]struct {
		method, url string
		header      http.Header
		body        string
		unmarked    bool // its context is not from WithParking
		watch       bool // it asks for no compression
		tried       bool // a connection is tried for it
	}{
		"get":                  {method: http.MethodGet, url: "https://server/api"},
		"list":                 {method: http.MethodGet, url: "https://server/api?watch=false"},
		"create":               {method: http.MethodPost, url: "https://server/api?watch=true", body: "x"},
		"get with a body":      {method: http.MethodGet, url: "https://server/api?watch=true", body: "x"},
		"upgrade":              {method: http.MethodGet, url: "https://server/api?watch=true", header: upgrade},
		"without TLS":          {method: http.MethodGet, url: "http://server/api?watch=true"},
		"base without HTTP/2":  {method: http.MethodGet, url: "https://server/api?watch=true", watch: true, tried: true},
		"watch of an informer": {method: http.MethodGet, url: "https://server/api?watch=true", unmarked: true, watch: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			passed := errors.New("passed to the base")
			base := &recorder{err: passed}
			ctx := WithParking(t.Context())
			if test.unmarked {
				ctx = t.Context()
			}
			request, err := http.NewRequestWithContext(ctx, test.method, test.url, strings.NewReader(test.body))
			check(t, err)
			if test.body == "" {
				request.Body = nil
			}
			if test.header != nil {
				request.Header = test.header
			}
			transport := New(base)
			response, err := transport.RoundTrip(request)
			if response != nil || !errors.Is(err, passed) {
				t.Errorf("got %v, want %v", err, passed)
			}
			last := base.requests[len(base.requests)-1]
			if got := last.Header.Get("Accept-Encoding") == "identity"; got != test.watch {
				t.Errorf("no compression was asked for: got %v, want it for watches only: %v", got, test.watch)
			}
			if last != request && !test.watch {
				t.Errorf("request: got %+v, want it unchanged", last)
			}
			if request.Header.Get("Accept-Encoding") != "" {
				t.Error("the header of the caller's request has changed")
			}
			if tried := len(transport.pools) > 0; tried != test.tried {
				t.Errorf("a connection was tried: got %v, want %v", tried, test.tried)
			}
		})
	}
}

// recorder is a base that has no connections.
type recorder struct {
	requests []*http.Request
	err      error
	closed   int
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.requests = append(r.requests, request)
	return nil, r.err
}

func (r *recorder) CloseIdleConnections() { r.closed++ }

// DISABLE_HTTP2 disables it here as well.
func TestTransportWithHTTP2Disabled(t *testing.T) {
	t.Setenv("DISABLE_HTTP2", "1")
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		c := clientFor(t, server.config())
		if r := c.watch(); r.Proto != "HTTP/1.1" {
			t.Errorf("protocol: got %s, want HTTP/1.1", r.Proto)
		}
		if dials, _ := server.seen(); dials != 1 {
			t.Errorf("dials: got %d, want 1: nothing is to be tried", dials)
		}
	})
}

func TestCloseIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := map[net.Conn]bool{}
		var mu sync.Mutex
		server := serve(t, func(s *site) {
			s.ConnState = func(c net.Conn, state http.ConnState) {
				mu.Lock()
				defer mu.Unlock()
				if open[c] = true; state == http.StateClosed {
					delete(open, c)
				}
			}
		})
		c := clientFor(t, server.config())
		streams := []*http.Response{c.watch(), c.watch()}
		start := time.Now()
		_ = streams[0].Body.Close()
		c.CloseIdleConnections()
		_ = streams[1].Body.Close() // the server does not know yet
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if took := time.Since(start); len(open) > 0 || took > 0 {
			t.Errorf("got %d open connections %v after the last stream, want none at once", len(open), took)
		}
	})
	base := &recorder{}
	client := &http.Client{Transport: New(base)}
	client.CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("closed the base's %d times, want once", base.closed)
	}
	if got := utilnet.RoundTripperWrapper(New(base)).WrappedRoundTripper(); got != http.RoundTripper(base) {
		t.Errorf("transport within: got %v, want the base", got)
	}
}

// A server that is silent for 30 s gets a PING, and has 15 s to answer, unless
// client-go's environment variables say otherwise.
func TestTransportChecksHealth(t *testing.T) {
	tests := map[string]struct {
		variables map[string]string
		want      time.Duration // 0 is never
	}{
		"default":  {want: 45 * time.Second},
		"shorter":  {variables: map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "5", "HTTP2_PING_TIMEOUT_SECONDS": "2"}, want: 7 * time.Second},
		"disabled": {variables: map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "0"}},
		"illegal":  {variables: map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "soon"}, want: 45 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for variable, value := range test.variables {
				t.Setenv(variable, value)
			}
			synctest.Test(t, func(t *testing.T) {
				server := serve(t, nil)
				network := &cuttable{site: server}
				config := server.config()
				config.Dial = network.dial
				c := clientFor(t, config)
				r := c.watch()
				synctest.Wait()
				network.cut()
				ended := make(chan time.Duration, 1)
				began := time.Now()
				go func() {
					_, _ = r.Body.Read(make([]byte, 1))
					ended <- time.Since(began)
				}()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				select {
				case after := <-ended:
					if test.want == 0 || after < test.want-time.Second || after > test.want+time.Second {
						t.Errorf("the stream ended after %v, want %v", after, test.want)
					}
				default:
					if test.want != 0 {
						t.Errorf("the stream goes on, want its end after %v", test.want)
					}
				}
				_ = r.Body.Close()
				network.close()
			})
		})
	}
}

// The end of its context ends a watch's wait for a connection, and the dial.
func TestTransportCancelsDials(t *testing.T) {
	hangs := map[string]func(*dials) dialFunc{
		"while it connects":       func(d *dials) dialFunc { return d.connecting },
		"while TLS is negotiated": func(d *dials) dialFunc { return d.silent },
	}
	for name, hang := range hangs {
		t.Run(name, inBubble(func(t *testing.T) {
			server := serve(t, nil)
			d := &dials{}
			config := server.config()
			config.Dial = hang(d)
			c := clientFor(t, config)
			ctx, cancel := context.WithTimeout(t.Context(), overdueAfter/2)
			defer cancel()
			began := time.Now()
			_, err := c.get(ctx, "/api?watch=true") //nolint:bodyclose // it is an error
			if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != overdueAfter/2 {
				t.Errorf("got %v after %v, want the end of the context", err, took)
			}
			synctest.Wait()
			if d.open.Load() != 0 || d.begun.Load() != 1 {
				t.Errorf("%d dials, %d of them open, want 1 that has ended", d.begun.Load(), d.open.Load())
			}
		}))
	}
}

// A server that accepts connections and is silent fails all that wait, after the
// time-out of the base transport.
func TestTransportLimitsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dials{}
		config := serve(t, nil).config()
		config.Dial = d.silent
		c := clientFor(t, config)
		failed := make(chan error)
		for range 20 {
			go func() {
				_, err := c.get(t.Context(), "/api?watch=true") //nolint:bodyclose // it is an error
				failed <- err
			}()
		}
		began := time.Now()
		for range 20 {
			if err := <-failed; err == nil || !strings.Contains(err.Error(), "TLS handshake timeout") {
				t.Errorf("got %v, want a time-out of the handshake", err)
			}
		}
		want := 2 + int32((10*time.Second-overdueAfter)/overdueAfterFirst)
		if took := time.Since(began); took != 10*time.Second || d.begun.Load() != want {
			t.Errorf("failed after %v and %d dials, want 10 s and %d", took, d.begun.Load(), want)
		}
		synctest.Wait()
		if d.open.Load() != 0 {
			t.Errorf("open connections: got %d, want none", d.open.Load())
		}
	})
}
