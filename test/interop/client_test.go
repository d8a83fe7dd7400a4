// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// client is an HTTP client under test, configured as a program does it.
type client struct {
	name     string
	config   func(*rest.Config) *rest.Config
	own      bool // whether its streams use the HTTP/2 client of package transport, or that of net/http
	receives bool // whether a Receiver takes its bodies, so that no goroutine reads them
}

var (
	refwatch = client{name: "refwatch", config: resource.ConfigFor, own: true, receives: true}
	// reading is what remains if a wrapper of the config hides the body.
	reading = client{name: "refwatch, Read", config: resource.ConfigFor, own: true}
	// netHTTP is what client-go uses by itself.
	netHTTP = client{name: "net/http", config: func(config *rest.Config) *rest.Config { return config }}
)

// connections are those of one client.
type connections struct {
	*connrotation.Dialer
	dialled atomic.Int64

	mu      sync.Mutex
	open    int
	changed chan struct{} // closed at the next change of open
}

// configFor returns the config of a client of the server at an address, and its connections. They are closed when the
// test ends.
func configFor(t *testing.T, address string) (*rest.Config, *connections) {
	c := &connections{changed: make(chan struct{})}
	c.Dialer = connrotation.NewDialer(c.dial)
	t.Cleanup(c.CloseAll)
	ca, _ := certificate()
	return &rest.Config{
		Host:            "https://" + address,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca},
		Dial:            c.DialContext,
	}, c
}

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.dialled.Add(1)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.add(1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.add(-1) })}, nil
}

func (c *connections) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitForNone waits until the client has closed all connections.
func (c *connections) waitForNone(t *testing.T) {
	t.Helper()
	timeout := time.After(patience)
	for {
		c.mu.Lock()
		open, changed := c.open, c.changed
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("open connections after %v: got %d, want none", patience, open)
		}
	}
}

// countedConn is an open connection.
type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

// transport returns the round tripper of the client.
func (c client) transport(t *testing.T, config *rest.Config) http.RoundTripper {
	t.Helper()
	roundTripper, err := rest.TransportFor(c.config(config))
	if err != nil {
		t.Fatal(err)
	}
	return roundTripper
}

// watch opens the stream at a URL.
func (c client) watch(ctx context.Context, roundTripper http.RoundTripper, url string) (*http.Response, error) {
	if c.own {
		ctx = h2.WithParking(ctx)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?watch=true", nil)
	if err != nil {
		return nil, err
	}
	response, err := roundTripper.RoundTrip(request)
	if err == nil && response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("got status %s", response.Status)
	}
	return response, err
}

// testName joins parts to the name of a subtest. A slash would separate levels for the flag -run.
func testName(parts ...string) string { return strings.ReplaceAll(strings.Join(parts, "; "), "/", "-") }
