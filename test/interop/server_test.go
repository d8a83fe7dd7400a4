// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
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
	tests := map[string]struct {
		limits      limits
		streams     int
		connections int // at most
	}{
		"1 stream a connection":         {limits{streams: 1}, 20, 20 + 5},
		"7 streams a connection":        {limits{streams: 7}, 100, 15 + 5},
		"250 streams a connection":      {limits{streams: 250}, 1000, 4 + 5},
		"the smallest frames and table": {limits{streams: 100, readFrame: 16 << 10, decoderTable: 1}, 200, 2 + 5},
	}
	for server, configure := range goServers {
		for name, test := range tests {
			for _, c := range []client{refwatch, reading, pooled} {
				t.Run(testName(server, name, c.name), func(t *testing.T) {
					feed := newFeed(t)
					w := newWatcher(t, c, serveGo(t, feed, func(s *http.Server) error { return configure(s, test.limits) }))
					w.open(test.streams)
					w.publish(feed, "update")
					w.publish(feed, large("large", 100_000))
					w.alive()
					got := int(w.connections.dialled.Load())
					if got > test.connections {
						t.Errorf("connections for %d streams: got %d, want at most %d", test.streams, got, test.connections)
					}
					results.addRun("Go: "+server, name, fmt.Sprintf("%s: %d streams on %d connections", c.name, test.streams, got))
				})
			}
		}
	}
}

// serveGo serves the feed by a server of this process, by TLS and HTTP/2, and returns its address.
func serveGo(t *testing.T, feed *feed, configure func(*http.Server) error) string {
	server := httptest.NewUnstartedServer(feed)
	server.TLS = serverTLS(t)
	server.EnableHTTP2 = true
	if err := configure(server.Config); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.Listener.Addr().String()
}
