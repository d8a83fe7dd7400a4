// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/net/http2"
)

// limits are those of a server in this process. Zero is the server's default.
type limits struct {
	streams, readFrame int
	decoderTable       int
}

// goServers are Go's two HTTP/2 servers.
var goServers = map[string]func(*http.Server, limits) error{
	"net/http": func(server *http.Server, l limits) error {
		server.HTTP2 = &http.HTTP2Config{
			MaxConcurrentStreams: l.streams, MaxReadFrameSize: l.readFrame, MaxDecoderHeaderTableSize: l.decoderTable,
		}
		return nil
	},
	"golang.org/x/net": func(server *http.Server, l limits) error {
		return http2.ConfigureServer(server, &http2.Server{
			MaxConcurrentStreams: uint32(l.streams), MaxReadFrameSize: uint32(l.readFrame), MaxDecoderHeaderTableSize: uint32(l.decoderTable),
		})
	},
}

// Streams open, deliver and close on Go's servers, whatever their limits, and take as few connections as these allow.
func TestGoServers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits      limits
		goAwayEvery int
		streams     int
		connections int // at most
	}{
		"1 stream a connection":         {limits{streams: 1}, 0, 20, 20 + 5},
		"7 streams a connection":        {limits{streams: 7}, 0, 100, 15 + 5},
		"250 streams a connection":      {limits{streams: 250}, 0, 1000, 4 + 5},
		"the smallest frames and table": {limits{streams: 100, readFrame: 16 << 10, decoderTable: 1}, 0, 200, 2 + 5},
		"GOAWAY after 50 requests":      {limits{}, 50, 400, 400/50 + 5},
	}
	for server, configure := range goServers {
		for name, test := range tests {
			t.Run(testName(server, name), func(t *testing.T) {
				feed := newFeed(t)
				feed.goAwayEvery = test.goAwayEvery
				w := newWatcher(t, refwatch, serveGo(t, feed, func(s *http.Server) error { return configure(s, test.limits) }).address())
				w.try(feed, test.streams, test.connections)
				results.add("Go: "+server, name, refwatch, fmt.Sprintf("%d streams on %d connections", test.streams, w.dialled()))
			})
		}
	}
}

// A server that shuts down gracefully ends no stream before its handler does.
func TestShutdown(t *testing.T) {
	t.Parallel()
	for server, configure := range goServers {
		for _, c := range []client{refwatch, netHTTP} {
			t.Run(testName(server, c.name), func(t *testing.T) {
				feed := newFeed(t)
				s := serveGo(t, feed, func(s *http.Server) error { return configure(s, limits{}) })
				w := newWatcher(t, c, s.address())
				w.open(150)
				begun, shutDown := make(chan struct{}), make(chan error, 1)
				s.Config.RegisterOnShutdown(func() { close(begun) })
				go func() { shutDown <- s.Config.Shutdown(t.Context()) }()
				<-begun
				w.publish(feed, "update")
				w.alive()
				feed.close()
				w.waitForEnd()
				for i, stream := range w.streams {
					if !errors.Is(stream.err, io.EOF) {
						t.Errorf("stream %d: got end %v, want io.EOF", i, stream.err)
					}
				}
				if err := <-shutDown; err != nil {
					t.Error(err)
				}
				w.connections.waitForNone(t)
				results.add("Go: "+server, "a graceful shutdown", c, "streams end regularly, when their handlers do")
			})
		}
	}
}

// goServer is a server of this process.
type goServer struct{ *httptest.Server }

func (s goServer) address() string { return s.Listener.Addr().String() }

// serveGo serves the handler by TLS and HTTP/2.
func serveGo(t *testing.T, handler http.Handler, configure func(*http.Server) error) goServer {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = serverTLS(t)
	s.EnableHTTP2 = true
	if err := configure(s.Config); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return goServer{s}
}
