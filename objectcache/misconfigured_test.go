// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

// password is in the URLs of proxies. No error shows it.
const password = "canary-password"

// misconfigurations are configs with which no request is answered, and the cause that client-go shows.
var misconfigurations = map[string]struct {
	config func(t *testing.T) *rest.Config
	want   string
}{
	"a proxy that wants a password": {throughProxy(func(t *testing.T) *httptest.Server { return newServer(t, answers407) }), "Proxy Authentication Required"},
	"a proxy that forbids":          {throughProxy(func(t *testing.T) *httptest.Server { return newServer(t, answersCode(403)) }), "Forbidden"},
	"a proxy without a way":         {throughProxy(func(t *testing.T) *httptest.Server { return newServer(t, answersCode(502)) }), "Bad Gateway"},
	"a proxy with words of its own": {throughProxy(func(t *testing.T) *httptest.Server {
		return newServer(t, answersRaw("HTTP/1.1 403 Ask the\x07 network team\r\n\r\n"))
	}), "Ask the\x07 network team"},
	"a proxy that is away":         {throughProxy(func(t *testing.T) *httptest.Server { s := newServer(t, answersCode(200)); s.Close(); return s }), "connect: connection refused"},
	"a proxy that closes":          {throughProxy(func(t *testing.T) *httptest.Server { return newServer(t, answersRaw("")) }), "EOF"},
	"a proxy that is none":         {throughProxy(func(t *testing.T) *httptest.Server { return newServer(t, answersRaw("SSH-2.0-x\r\n")) }), "malformed HTTP response"},
	"a proxy that speaks no TLS":   {speaksNoTLS, "tls: first record does not look like a TLS handshake"},
	"a proxy that speaks no SOCKS": {speaksNoSOCKS, "unexpected protocol version"},
	"a proxy without an address": {func(*testing.T) *rest.Config {
		return &rest.Config{Host: "https://127.0.0.1:1", Proxy: func(*http.Request) (*url.URL, error) {
			address := "http://user:" + password + "@[proxy"
			return nil, fmt.Errorf("invalid proxy address %q: parse %q: missing ']' in host", address, address)
		}}
	}, "missing ']' in host"},
	"HTTPS to a port of HTTP": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: strings.Replace(newServer(t, answersCode(200)).URL, "http:", "https:", 1)}
	}, "http: server gave HTTP response to HTTPS client"},
	"HTTP to a port that answers with a TLS alert": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newServer(t, answersRaw("\x15\x03\x01\x00\x02\x02\x46")).URL}
	}, `malformed HTTP response "\x15\x03\x01\x00\x02\x02F"`},
	"an unknown authority": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newTLSServer(t, nil, answersCode(200)).URL}
	}, "x509: certificate signed by unknown authority"},
	"an expired certificate":         {withCertificate(x509.Certificate{NotAfter: time.Now().Add(-time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}), "x509: certificate has expired or is not yet valid"},
	"a certificate of another":       {withCertificate(x509.Certificate{NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"other"}}), "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"},
	"no client certificate":          {wantsClientCertificate(0), "remote error: tls: certificate required"},
	"no client certificate, TLS 1.2": {wantsClientCertificate(tls.VersionTLS12), "remote error: tls: "},
	"a TLS version that is too old": {func(t *testing.T) *rest.Config {
		server := newTLSServer(t, &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}, answersCode(200))
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)}}
	}, "protocol version not supported"},
	"a plugin that is missing": {withPlugin("/no/such/plugin", "client.authentication.k8s.io/v1"), "/no/such/plugin"},
	"a plugin that fails":      {withPlugin("/bin/false", "client.authentication.k8s.io/v1"), "executable /bin/false failed with exit code 1"},
	"a plugin of another version": {withPlugin("/bin/echo", "client.authentication.k8s.io/v1",
		`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"}`), "plugin returned version client.authentication.k8s.io/v1beta1"},
	"no such host":          {dials(&net.DNSError{Err: "no such host", Name: "server", IsNotFound: true}), "lookup server: no such host"},
	"no such socket":        {dials(&net.OpError{Op: "dial", Net: "unix", Err: errors.New("connect: no such file or directory")}), "dial unix: connect: no such file or directory"},
	"a dialer that refuses": {dials(errors.New("the tunnel is down")), "the tunnel is down"},
	"a closed port": {func(t *testing.T) *rest.Config {
		server := newServer(t, answersCode(200))
		server.Close()
		return &rest.Config{Host: server.URL}
	}, "connect: connection refused"},
	"a port that is none":     {func(*testing.T) *rest.Config { return &rest.Config{Host: "https://[::1]:99999"} }, "invalid port"},
	"a protocol that is none": {func(*testing.T) *rest.Config { return &rest.Config{Host: "ftp://127.0.0.1:1"} }, `unsupported protocol scheme "ftp"`},
	"a token that is none": {func(t *testing.T) *rest.Config {
		server := newTLSServer(t, nil, answersCode(200))
		return &rest.Config{Host: server.URL, BearerToken: password + "\n", TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)}}
	}, `"Authorization"`},
	"a redirect without an end": {redirects(func(r *http.Request) string { return r.URL.Path }), "stopped after 10 redirects"},
	"a redirect to nowhere":     {redirects(func(*http.Request) string { return "http://user:" + password + "@127.0.0.1:1/" + canary }), "dial tcp 127.0.0.1:1: connect: connection refused"},
	"a redirect that is none":   {redirects(func(*http.Request) string { return "http://[" + canary }), "missing ']' in host"},
	"a redirect to a scheme":    {redirects(func(*http.Request) string { return "ftp://127.0.0.1/" + canary }), `unsupported protocol scheme "ftp"`},
	"a status line that is none": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newServer(t, answersRaw("canary HTTP\r\n\r\n")).URL}
	}, "malformed HTTP"},
	"a length that is none": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newServer(t, answersRaw("HTTP/1.1 200 OK\r\nContent-Length: x1\r\n\r\n")).URL}
	}, `bad Content-Length "x1"`},
	"an encoding that is none": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newServer(t, answersRaw("HTTP/1.1 200 OK\r\nTransfer-Encoding: x2\r\n\r\n")).URL}
	}, `unsupported transfer encoding: "x2"`},
	"a line of a header that is none": {func(t *testing.T) *rest.Config {
		return &rest.Config{Host: newServer(t, answersRaw("HTTP/1.1 200 OK\r\ncanary\r\n\r\n")).URL}
	}, "malformed MIME header"},
}

// Whatever is wrong with a config, the error of Get has the cause that client-go shows, with each strategy and client.
// No password is shown, and nothing that may be an object.
func TestMisconfigured(t *testing.T) {
	for name, test := range misconfigurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := test.config(t)
			shown := unlessAlertIsLost(func() string { return clientGoError(t, config) })
			if !strings.Contains(shown, test.want) {
				t.Fatalf("client-go: got %s, want %q in it", shown, test.want)
			}
			want := strings.ReplaceAll(test.want, "\x07", `\a`)
			for strategy, options := range map[string]objectcache.StoreOptions{
				"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{},
			} {
				sources := secretsOf(t, config)
				sources["without our transport"] = plainSecrets(t, config)
				for client, secrets := range sources {
					if client == "typed" && (strategy != "direct" || test.want == "EOF") {
						continue // client-go sends it ten times more, a second apart
					}
					got := unlessAlertIsLost(func() string {
						return failedGet(t, secrets, options).Error()
					})
					if !strings.Contains(got, want) || strings.Contains(got, "canary") || strings.Contains(got, "hidden") {
						t.Errorf("%s, %s: got %s\nwant %q in it, and nothing secret", strategy, client, got, want)
					}
				}
			}
		})
	}
}

// unlessAlertIsLost calls get until its text is not that of a lost TLS alert. In TLS 1.3 a server refuses a client
// after the client's handshake: the alert is lost where the server has closed the connection before the request is
// written.
func unlessAlertIsLost(get func() string) (text string) {
	for range 100 {
		text = get()
		if !strings.Contains(text, ": write: ") && !strings.HasSuffix(text, "http2: client conn could not be established") {
			break
		}
	}
	return text
}

// A port of HTTPS answers a request of HTTP with a text, which client-go does not show.
func TestHTTPToAPortOfHTTPS(t *testing.T) {
	config := &rest.Config{Host: strings.Replace(newTLSServer(t, nil, answersCode(http.StatusOK)).URL, "https:", "http:", 1)}
	for client, secrets := range secretsOf(t, config) {
		got := failedGet(t, secrets, objectcache.WatchOptions{}).Error()
		if want := "Client sent an HTTP request to an HTTPS server"; !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %q in it", client, got, want)
		}
	}
}

// clientGoError returns the error of a GET of client-go.
func clientGoError(t *testing.T, config *rest.Config) string {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("secrets").Name("tls").MaxRetries(0).Do(t.Context()).Error()
	if err == nil {
		t.Fatal("client-go: got no error")
	}
	return err.Error()
}

// secretsOf returns the Secrets of a REST client, and those of a typed client without one.
func secretsOf(t *testing.T, config *rest.Config) map[string]resource.Resource[*corev1.Secret] {
	client := newClient(t, resource.ConfigFor(config))
	return map[string]resource.Resource[*corev1.Secret]{
		"REST": resource.Secrets(client),
		"typed": clients.Typed(func(namespace string) withoutRESTClient {
			return withoutRESTClient{client.CoreV1().Secrets(namespace)}
		}, corev1.SchemeGroupVersion.WithResource("secrets")),
	}
}

// failedGet returns the error of a Get of an object that cannot be read.
func failedGet(t *testing.T, secrets resource.Resource[*corev1.Secret], options objectcache.StoreOptions) error {
	t.Helper()
	store, err := objectcache.NewStore(secrets, options)
	if err != nil {
		t.Fatal(err)
	}
	defer runStore(t.Context(), t, store)()
	store.AddReference(namespace, "tls", types.UID("owner"))
	for {
		err := getUntilItFails(t.Context(), store)
		if err == nil {
			t.Fatal("got no error")
		}
		if text := err.Error(); !strings.HasSuffix(text, "context canceled") { // else another attempt has begun meanwhile
			return err
		}
	}
}

// getUntilItFails returns the error of a Get that ends when an attempt has failed.
func getUntilItFails(ctx context.Context, store objectcache.Store[*corev1.Secret]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, direct := store.(*objectcache.DirectStore[*corev1.Secret]); !direct {
		go func() { // Get waits for the next attempt
			for ctx.Err() == nil {
				if status, ok := store.Status(namespace, "tls"); ok && status.LastError != nil {
					cancel()
				}
				runtime.Gosched()
			}
		}()
	}
	_, err := store.Get(ctx, namespace, "tls")
	return err
}

func newServer(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

func newTLSServer(t *testing.T, config *tls.Config, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2, server.TLS = true, config
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func caOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func answersCode(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func answers407(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Proxy-Authenticate", "Basic")
	w.WriteHeader(http.StatusProxyAuthRequired)
}

// answersRaw answers with these bytes, and closes the connection.
func answersRaw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.Copy(conn, bytes.NewReader([]byte(answer)))
		_ = conn.(*net.TCPConn).CloseWrite()
		_ = conn.Close()
	}
}

// throughProxy is a config with a proxy.
func throughProxy(start func(t *testing.T) *httptest.Server) func(t *testing.T) *rest.Config {
	return func(t *testing.T) *rest.Config {
		return withProxy("http", start(t).Listener)
	}
}

func speaksNoTLS(t *testing.T) *rest.Config {
	return withProxy("https", newServer(t, answersCode(http.StatusOK)).Listener)
}

func speaksNoSOCKS(t *testing.T) *rest.Config {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 16))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return withProxy("socks5", listener)
}

// withProxy is a config with a proxy, whose URL has a password.
func withProxy(scheme string, listener net.Listener) *rest.Config {
	proxy := url.URL{Scheme: scheme, User: url.UserPassword("user", password), Host: listener.Addr().String()}
	return &rest.Config{Host: "https://server.example:6443", Proxy: http.ProxyURL(&proxy)}
}

func redirects(location func(*http.Request) string) func(t *testing.T) *rest.Config {
	return func(t *testing.T) *rest.Config {
		server := newTLSServer(t, nil, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", location(r))
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)}}
	}
}

func dials(err error) func(t *testing.T) *rest.Config {
	return func(*testing.T) *rest.Config {
		return &rest.Config{Host: "https://server.example:6443", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, err }}
	}
}

func withPlugin(command, version string, arguments ...string) func(t *testing.T) *rest.Config {
	return func(*testing.T) *rest.Config {
		return &rest.Config{Host: "https://127.0.0.1:1", ExecProvider: &api.ExecConfig{
			Command: command, Args: arguments, APIVersion: version, InteractiveMode: api.NeverExecInteractiveMode,
		}}
	}
}

func wantsClientCertificate(version uint16) func(t *testing.T) *rest.Config {
	return func(t *testing.T) *rest.Config {
		server := newTLSServer(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: version}, answersCode(http.StatusOK))
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: caOf(server)}}
	}
}

// withCertificate is a config for a server with a certificate.
func withCertificate(template x509.Certificate) func(t *testing.T) *rest.Config {
	return func(t *testing.T) *rest.Config {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template.SerialNumber, template.IsCA, template.BasicConstraintsValid = big.NewInt(1), true, true
		raw, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		server := newTLSServer(t, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}, answersCode(http.StatusOK))
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
		return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	}
}
