// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// site is a server of net/http in a bubble, over TLS and net.Pipe.
type site struct {
	*http.Server
	ca     *authority
	errors strings.Builder // net/http's log

	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once

	mu       sync.Mutex
	dials    int
	requests []string // method, URI, protocol, and the client certificate's name
}

// serve starts a site, which ends with the test.
func serve(t *testing.T, change func(*site)) *site {
	t.Helper()
	s := &site{Server: &http.Server{}, ca: newAuthority(t), incoming: make(chan net.Conn), closed: make(chan struct{})}
	s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{s.ca.issue(t, "server")}}
	s.Handler = http.HandlerFunc(s.watch)
	s.ErrorLog = log.New(&s.errors, "", 0)
	if change != nil {
		change(s)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.ServeTLS(s, "", "")
	}()
	t.Cleanup(func() { _ = s.Server.Close(); <-served })
	return s
}

// watch responds with the header and one line, and waits for the end of the request.
func (s *site) watch(w http.ResponseWriter, r *http.Request) {
	name := ""
	if certificates := r.TLS.PeerCertificates; len(certificates) > 0 {
		name = certificates[0].Subject.CommonName
	}
	s.mu.Lock()
	s.requests = append(s.requests, strings.TrimSpace(strings.Join([]string{r.Method, r.RequestURI, r.Proto, name}, " ")))
	s.mu.Unlock()
	_, _ = io.WriteString(w, "added\n")
	_ = http.NewResponseController(w).Flush()
	if r.URL.Query().Has("watch") {
		<-r.Context().Done()
	}
}

func (s *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	client, server := net.Pipe()
	s.mu.Lock()
	s.dials++
	s.mu.Unlock()
	select {
	case s.incoming <- server:
		return client, nil
	case <-s.closed:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *site) Accept() (net.Conn, error) {
	select {
	case c := <-s.incoming:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *site) Close() error { s.once.Do(func() { close(s.closed) }); return nil }

func (s *site) Addr() net.Addr { return &net.TCPAddr{} }

func (s *site) seen() (dials int, requests []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dials, append([]string(nil), s.requests...)
}

// config is that of a client of the site.
func (s *site) config() *rest.Config {
	return &rest.Config{Host: "https://server", TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.pem}, Dial: s.dial}
}

// client is an HTTP client made from config, on a Transport.
type client struct {
	*http.Client
	t         *testing.T
	transport *Transport
}

// clientFor makes a client as ConfigFor's.
func clientFor(t *testing.T, config *rest.Config) *client {
	t.Helper()
	c := &client{t: t}
	config = rest.CopyConfig(config)
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // else client-go shares transports between tests
	}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		c.transport = New(base)
		return c.transport
	})
	httpClient, err := rest.HTTPClientFor(config)
	check(t, err)
	c.Client = httpClient
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// get sends a request. The result is read or closed by the caller.
func (c *client) get(ctx context.Context, path string) (*http.Response, error) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(WithParking(ctx), http.MethodGet, "https://server"+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.Do(request)
}

// watch opens a stream, reads its first line, and closes it when the test ends.
func (c *client) watch() *http.Response {
	c.t.Helper()
	response, err := c.get(c.t.Context(), "/api?watch=true")
	if err != nil {
		c.t.Fatalf("watch: %v", err)
	}
	c.t.Cleanup(func() { _ = response.Body.Close() })
	line := make([]byte, len("added\n"))
	if _, err := io.ReadFull(response.Body, line); err != nil || string(line) != "added\n" {
		c.t.Fatalf("watch: got %q and %v, want a line", line, err)
	}
	return response
}

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	template := certificate("ca")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	parsed, err := x509.ParseCertificate(der)
	check(t, err)
	return &authority{parsed, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue issues a certificate for servers and clients.
func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	template := certificate(name)
	template.DNSNames = []string{name}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	check(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pool is for servers and clients that trust a.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// certificate is valid in a bubble, where it is the year 2000, and outside.
func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

// pemOf returns a certificate and its key as files have them.
func pemOf(t *testing.T, c tls.Certificate) (certificate, key []byte) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
