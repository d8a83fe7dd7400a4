// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// listenForScripts returns a base transport for a TLS server on loopback, its address,
// and a function that takes its next connection.
func listenForScripts(t *testing.T) (base *http.Transport, address string, next func() *script) {
	certified := httptest.NewUnstartedServer(http.NotFoundHandler())
	certified.EnableHTTP2 = true
	certified.StartTLS()
	t.Cleanup(certified.Close)
	base = certified.Client().Transport.(*http.Transport)
	base.TLSClientConfig.ServerName = "example.com"

	config := certified.TLS.Clone()
	config.NextProtos = []string{"h2"}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return base, listener.Addr().String(), func() *script {
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return newScript(t, conn, false)
	}
}

// watch sends a watch through transport, and returns its call.
func watch(t *testing.T, transport *Transport, address string) *call {
	c := get(&loopbackClient{transport, address}, "/api", receive)
	t.Cleanup(func() {
		c.close()
		<-c.done
	})
	return c
}

// loopbackClient is a testClient of one server.
type loopbackClient struct {
	*Transport
	address string
}

func (c *loopbackClient) reserve() bool { return true }
func (c *loopbackClient) release()      {}
func (c *loopbackClient) close()        {}

func (c *loopbackClient) roundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host, r.URL.RawQuery = "https", c.address, "watch=true"
	return c.RoundTrip(r.WithContext(WithParking(r.Context())))
}

// Over TLS and TCP: a stream that is cut in a frame, with or without TLS' own end,
// fails, and the next one gets a new connection.
func TestFaultOverLoopback(t *testing.T) {
	cuts := map[string]func(*script){
		"TLS": func(s *script) { _ = s.conn.Close() },
		"TCP": func(s *script) { _ = s.conn.(*tls.Conn).NetConn().Close() },
		"reset": func(s *script) {
			c := s.conn.(*tls.Conn).NetConn().(*net.TCPConn)
			_ = c.SetLinger(0)
			_ = c.Close()
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			base, address, next := listenForScripts(t)
			transport := New(base)
			t.Cleanup(transport.CloseIdleConnections)
			for range 2 {
				c := watch(t, transport, address)
				s := next()
				s.accept()
				id := s.request("/api?watch=true")
				s.ok(id)
				s.data(id, "text")
				s.half(12, func() { s.data(id, "more") })
				cut(s)
				<-c.done
				for c.failure() == nil {
					<-c.changed
				}
				if got, want := c.end(), "error"; got != want {
					t.Errorf("got %s (%v), want %s", got, c.failure(), want)
				}
				if got, want := c.status(), 200; got != want {
					t.Errorf("got status %d, want %d", got, want)
				}
			}
		})
	}
}
