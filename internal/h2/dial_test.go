// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	clientgotransport "k8s.io/client-go/transport"
)

// The TLS configuration of a connection is client-go's.
func TestDialUsesTheTLSConfiguration(t *testing.T) {
	type setup struct {
		t      *testing.T
		server *site
		config *rest.Config
	}
	tests := map[string]struct {
		change func(setup)
		fails  bool
		name   string // of the client certificate
	}{
		"CA data":    {change: func(setup) {}},
		"another CA": {change: func(s setup) { s.config.CAData = newAuthority(s.t).pem }, fails: true},
		"insecure": {change: func(s setup) {
			s.config.CAData, s.config.Insecure = nil, true
			s.server.TLSConfig.Certificates = []tls.Certificate{newAuthority(s.t).issue(s.t, "server")}
		}},
		"TLSServerName": {change: func(s setup) {
			s.config.ServerName = "other"
			s.server.TLSConfig.Certificates = []tls.Certificate{s.server.ca.issue(s.t, "other")}
		}},
		"wrong TLSServerName": {change: func(s setup) { s.config.ServerName = "other" }, fails: true},
		"client certificate": {change: func(s setup) {
			s.server.TLSConfig.ClientCAs, s.server.TLSConfig.ClientAuth = s.server.ca.pool(), tls.RequireAndVerifyClientCert
			s.config.CertData, s.config.KeyData = pemOf(s.t, s.server.ca.issue(s.t, "kubelet"))
		}, name: "kubelet"},
	}
	for name, test := range tests {
		t.Run(name, inBubble(func(t *testing.T) {
			var config *rest.Config
			server := serve(t, func(s *site) {
				config = s.config()
				test.change(setup{t, s, config})
			})
			response, err := clientFor(t, config).get(t.Context(), "/api?watch=true")
			if err == nil {
				_ = response.Body.Close()
			}
			_, requests := server.seen()
			if test.fails {
				if err == nil || len(requests) > 0 {
					t.Errorf("got %v and requests %q, want an error and none", err, requests)
				}
				return
			}
			if want := strings.TrimSpace("HTTP/2.0 " + test.name); err != nil || !strings.HasSuffix(requests[0], want) {
				t.Errorf("got %v and requests %q, want one of %q", err, requests, want)
			}
		}))
	}
}

// Exec plugins, and certificates in files, give client-go a function that returns the
// certificate. Each connection has that of its time.
func TestDialUsesCertificatesOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, func(s *site) {
			s.TLSConfig.ClientCAs, s.TLSConfig.ClientAuth = s.ca.pool(), tls.RequireAndVerifyClientCert
			s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
		})
		names := []string{"first", "second"}
		given := 0
		base, err := clientgotransport.New(&clientgotransport.Config{
			Proxy: http.ProxyFromEnvironment,
			TLS: clientgotransport.TLSConfig{CAData: server.ca.pem, GetCertHolder: &clientgotransport.GetCertHolder{
				GetCert: func() (*tls.Certificate, error) {
					issued := server.ca.issue(t, names[given])
					given++
					return &issued, nil
				},
			}},
			DialHolder: &clientgotransport.DialHolder{Dial: server.dial},
		})
		check(t, err)
		c := &client{t: t, Client: &http.Client{Transport: New(base)}}
		t.Cleanup(c.CloseIdleConnections)
		c.watch()
		c.watch()
		_, requests := server.seen()
		if len(requests) != 2 || !strings.HasSuffix(requests[0], "first") || !strings.HasSuffix(requests[1], "second") {
			t.Errorf("requests: got %q, want one of each certificate", requests)
		}
	})
}

// client-go looks for a new CA file when a request passes its transport, five minutes
// after the last time. A new connection counts as one.
func TestDialReloadsCAFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ca.crt")
		old, renewed := newAuthority(t), newAuthority(t)
		certificate := old.issue(t, "server")
		server := serve(t, func(s *site) {
			s.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }}
			s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
		})
		write(t, file, old.pem)
		config := server.config()
		config.CAData, config.CAFile = nil, file
		c := clientFor(t, config)
		c.watch()
		certificate = renewed.issue(t, "server")
		write(t, file, renewed.pem)
		time.Sleep(5*time.Minute + 1)
		c.watch()
		if dials, _ := server.seen(); dials != 2 {
			t.Errorf("dials: got %d, want 2", dials)
		}
	})
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	check(t, os.WriteFile(file, data, 0o600))
}

// A proxy gets a CONNECT for each connection, with its credentials, and the server has
// TLS with the client.
func TestDialUsesProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, func(s *site) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1} })
		p := &proxy{site: server}
		config := server.config()
		config.Dial = p.dial
		config.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "https" || r.URL.Host != "server" {
				t.Errorf("the proxy of %v was asked for, want that of the server", r.URL)
			}
			return &url.URL{Scheme: "http", Host: "proxy:3128", User: url.UserPassword("user", "secret")}, nil
		}
		c := clientFor(t, config)
		c.watch()
		c.watch()
		const want = "CONNECT server:443 Basic dXNlcjpzZWNyZXQ="
		if got := p.seen(); !slices.Equal(got, []string{want, want}) {
			t.Errorf("requests to the proxy: got %q, want two of %q", got, want)
		}
	})
}

// A proxy that refuses is the error of the watch.
func TestDialReturnsErrorsOfProxies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		p := &proxy{site: server, status: "HTTP/1.1 403 Forbidden\r\n\r\n"}
		config := server.config()
		config.Dial = p.dial
		config.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy:3128"})
		_, err := clientFor(t, config).get(t.Context(), "/api?watch=true") //nolint:bodyclose // it is an error
		if err == nil || !strings.Contains(err.Error(), "Forbidden") {
			t.Errorf("watch: got %v, want the proxy's refusal", err)
		}
	})
}

// proxy is an HTTP proxy in front of a site.
type proxy struct {
	site   *site
	status string // of its responses; default 200

	mu       sync.Mutex
	requests []string
}

func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

func (p *proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != "proxy:3128" {
		return p.site.dial(ctx, network, address)
	}
	client, own := net.Pipe()
	go p.serve(ctx, own)
	return client, nil
}

func (p *proxy) serve(ctx context.Context, c net.Conn) {
	defer func() { _ = c.Close() }()
	request, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, strings.Join([]string{request.Method, request.Host, request.Header.Get("Proxy-Authorization")}, " "))
	p.mu.Unlock()
	if p.status != "" {
		_, _ = io.WriteString(c, p.status)
		return
	}
	onward, err := p.site.dial(ctx, "tcp", request.Host)
	if err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(onward, c)
		_ = onward.Close()
	}()
	_, _ = io.Copy(c, onward)
}

// A base that dials by other hooks than DialContext dials for watches as well.
func TestDialLeavesOtherHooksToTheBase(t *testing.T) {
	hooks := map[string]func(context.Context, *http.Transport, *site){
		"Dial": func(ctx context.Context, base *http.Transport, s *site) {
			base.Dial = func(network, address string) (net.Conn, error) { //nolint:staticcheck // deprecated, and used
				return s.dial(ctx, network, address)
			}
		},
		"DialTLSContext": func(_ context.Context, base *http.Transport, s *site) {
			base.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := s.dial(ctx, network, address)
				return tls.Client(c, base.TLSClientConfig), err
			}
		},
	}
	for name, hook := range hooks {
		t.Run(name, inBubble(func(t *testing.T) {
			server := serve(t, nil)
			base := &http.Transport{
				ForceAttemptHTTP2: true,
				TLSClientConfig: &tls.Config{
					RootCAs: server.ca.pool(), ServerName: "server", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
				},
			}
			hook(t.Context(), base, server)
			c := &client{t: t, Client: &http.Client{Transport: New(base)}}
			t.Cleanup(c.CloseIdleConnections)
			c.watch()
			if dials, _ := server.seen(); dials != 1 {
				t.Errorf("dials: got %d, want 1", dials)
			}
		}))
	}
}

// A dial that succeeds after nobody waits for it leaves no connection behind.
func TestDialLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		config := server.config()
		network := &cuttable{site: server}
		config.Dial = func(ctx context.Context, n, address string) (net.Conn, error) {
			time.Sleep(time.Second) // it does not obey ctx
			return network.dial(context.WithoutCancel(ctx), n, address)
		}
		c := clientFor(t, config)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if response, err := c.get(ctx, "/api?watch=true"); err == nil {
			_ = response.Body.Close()
			t.Error("watch: got a response, want the end of the context")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := network.conns[0].Write([]byte("x")); err == nil {
			t.Error("the late connection is open, want it closed")
		}
	})
}
