// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cliflag "k8s.io/component-base/cli/flag"
)

// start runs a server and returns its URL, and a function that ends it and returns the error of Run.
func start(t *testing.T, handler http.Handler) (url string, stop func() error) {
	t.Helper()
	s, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, handler) }()
	return s.URL(), func() error { cancel(); return <-ended }
}

// do sends a request without keeping the connection.
func do(t *testing.T, method, url string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// TestPages requests each page.
func TestPages(t *testing.T) {
	var notReady error
	hint := ""
	sets := cliflag.NamedFlagSets{}
	sets.FlagSet("agent").String("node-name", "worker-7", "")
	sets.FlagSet("agent").String("password", "hunter2", "")
	if err := sets.FlagSet("agent").SetAnnotation("password", "classified", []string{"true"}); err != nil {
		t.Fatal(err)
	}
	url, stop := start(t, NewHandler(Options{
		Name:  "nodeagent",
		Ready: func() error { return notReady },
		Hint:  func() string { return hint },
		Flags: func() cliflag.NamedFlagSets { return sets },
		Pages: map[string]http.Handler{"/metrics": http.RedirectHandler("/healthz", http.StatusSeeOther)},
	}))
	check := func(method, path string, wantCode int, want ...string) {
		t.Helper()
		response, body := do(t, method, url+path)
		if response.StatusCode != wantCode {
			t.Errorf("%s %s: got status %d, want %d", method, path, response.StatusCode, wantCode)
		}
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s %s: got %q, want it to contain %q", method, path, body, text)
			}
		}
		if path != "/metrics" && wantCode != 405 && wantCode != 404 {
			for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
				if got := response.Header.Get(header); got != want {
					t.Errorf("%s %s: got %s %q, want %q", method, path, header, got, want)
				}
			}
		}
		if strings.Contains(body, "hunter2") {
			t.Errorf("%s %s: got the value of a classified flag", method, path)
		}
	}
	check("GET", "/", 200, "<h1>nodeagent</h1>", `<a href="/healthz">/healthz</a>`, `<a href="/metrics">/metrics</a>`, `<a href="/flagz">`)
	check("GET", "/healthz", 200, "ok")
	check("GET", "/readyz", 200, "ok")
	hint = "no pods"
	check("GET", "/readyz", 200, "ok; no pods\n")
	hint = ""
	notReady = errors.New("no pods yet")
	check("GET", "/readyz", 503, "not ready: no pods yet")
	check("GET", "/healthz", 200, "ok")
	check("GET", "/flagz", 200, "nodeagent flagz\nWarning: ", "\nnode-name=worker-7\n", "\npassword=CLASSIFIED\n")
	check("GET", "/statusz", 200, "nodeagent statusz\nWarning: ", "\nUp: 0 hr 00 min", "\nPaths: /flagz /healthz /metrics /readyz /statusz\n")
	check("GET", "/metrics", 200, "ok")
	check("HEAD", "/healthz", 200)
	check("POST", "/healthz", 405)
	check("DELETE", "/metrics", 405)
	check("GET", "/none", 404)
	if err := stop(); err != nil {
		t.Errorf("Run: got error %v, want none", err)
	}
}

// TestListenRefuses: an address that is in use is an error before the agent starts.
func TestListenRefuses(t *testing.T) {
	s, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing was served
	if second, err := Listen(t.Context(), strings.TrimPrefix(s.URL(), "http://")); err == nil || !strings.Contains(err.Error(), "in use: choose another --bind-address, or 0") {
		t.Errorf("Listen on an address in use: got %v and error %v, want an error", second, err)
	}
}

// TestEndsInBoundedTime: requests under way get the end of the context. If they ignore it, Run ends after 3 s.
func TestEndsInBoundedTime(t *testing.T) {
	for name, tc := range map[string]struct {
		ignores bool
		want    time.Duration
	}{"heeds the context": {false, 0}, "ignores it": {true, shutdownTimeout}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Connections in memory: virtual time does not pass while a goroutine waits for the network.
				client, conn := net.Pipe()
				s := &Server{listener: &oneConn{conn: conn, closed: make(chan struct{})}}
				entered, release := make(chan struct{}), make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					ended <- s.Run(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
						close(entered)
						if tc.ignores {
							<-release
						} else {
							<-r.Context().Done()
						}
					}))
				}()
				closed := make(chan struct{}) // by the server
				go func() { _, _ = io.Copy(io.Discard, client); close(closed) }()
				if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: agent\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				<-entered
				began := time.Now()
				cancel()
				err := <-ended
				// Shutdown looks at the connections from time to time.
				if took := time.Since(began); err != nil || took < tc.want || took > tc.want+time.Second {
					t.Errorf("Run: got error %v after %v, want none after %v", err, took, tc.want)
				}
				<-closed // a server that leaves it open is a deadlock here
				close(release)
				_ = client.Close()
			})
		})
	}
}

// TestSlowClients: a client that does not send or read holds its connection for a bounded time.
func TestSlowClients(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: agent\r\n"
	for name, tc := range map[string]struct {
		sends   string
		reads   bool
		want    time.Duration
		content string // of what the client reads
	}{
		"no request":                {"", true, readTimeout, ""},
		"header without an end":     {request, true, readTimeout, ""},
		"no second request":         {request + "\r\n", true, idleTimeout, "200 OK"},
		"response that is not read": {request + "\r\n", false, writeTimeout, ""},
		"large header":              {request + "X: " + strings.Repeat("x", 2*maxHeaderBytes), true, 0, "431 Request Header Fields Too Large"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, conn := net.Pipe()
				defer client.Close() //nolint:errcheck // the server closes its end
				s := &Server{listener: &oneConn{conn: conn, closed: make(chan struct{})}}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				wrote := make(chan struct{})
				go func() {
					ended <- s.Run(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
						defer close(wrote)
						_, _ = w.Write(make([]byte, 1<<20))
					}))
				}()
				began := time.Now()
				go func() { _, _ = client.Write([]byte(tc.sends)) }()
				if tc.reads {
					content, _ := io.ReadAll(client)
					if !strings.Contains(string(content), tc.content) {
						t.Errorf("response: got %.100q, want it to contain %q", content, tc.content)
					}
				} else {
					<-wrote
				}
				if took := time.Since(began); took < tc.want || took > tc.want+time.Second {
					t.Errorf("connection: got its end after %v, want it after %v", took, tc.want)
				}
				cancel()
				if err := <-ended; err != nil {
					t.Errorf("Run: got error %v, want none", err)
				}
			})
		})
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}
func (l *oneConn) Close() error   { close(l.closed); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
