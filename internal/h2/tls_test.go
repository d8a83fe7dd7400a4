// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/fips140"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// A connection resumes a TLS session if the program has set a ClientSessionCache. client-go sets none.
func TestTLSResumption(t *testing.T) {
	for name, sessions := range map[string]tls.ClientSessionCache{
		"without a session cache": nil,
		"with a session cache":    tls.NewLRUClientSessionCache(1),
	} {
		t.Run(name, inBubble(func(t *testing.T) {
			server := serve(t, func(s *site) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1} })
			base := &http.Transport{
				DialContext: server.dial, ForceAttemptHTTP2: true,
				TLSClientConfig: &tls.Config{RootCAs: server.ca.pool(), ClientSessionCache: sessions},
			}
			c := &client{t: t, Client: &http.Client{Transport: New(base)}}
			t.Cleanup(c.CloseIdleConnections)
			if c.watch().TLS.DidResume {
				t.Error("first connection: it has resumed a session, and there was none")
			}
			if got, want := c.watch().TLS.DidResume, sessions != nil; got != want {
				t.Errorf("second connection: resumed %v, want %v", got, want)
			}
			if dials, _ := server.seen(); dials != 2 {
				t.Errorf("dials: got %d, want 2", dials)
			}
		}))
	}
}

// approvedSuites are those of TLS 1.2 and 1.3 that FIPS 140-3 allows.
var approvedSuites = []uint16{
	tls.TLS_AES_128_GCM_SHA256, tls.TLS_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
}

// With GODEBUG=fips140=only, in which Go refuses algorithms that are not approved, watches have an HTTP/2
// connection of this package.
func TestFIPS(t *testing.T) {
	const child = "REFWATCH_TEST_FIPS"
	if os.Getenv(child) == "" {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFIPS$", "-test.v")
		command.Env = append(os.Environ(), child+"=1", "GODEBUG=fips140=only")
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("with GODEBUG=fips140=only: %v\n%s", err, output)
		}
		return
	}
	if !fips140.Enabled() {
		t.Fatal("FIPS 140-3 mode is off")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	base := server.Client().Transport.(*http.Transport)
	transport := New(base)
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(WithParking(t.Context()), http.MethodGet, server.URL+"/api?watch=true", nil)
	check(t, err)
	response, err := transport.RoundTrip(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != "HTTP/2.0" {
		t.Errorf("response: got %q and %v, want HTTP/2.0", got, err)
	}
	if len(transport.pools) != 1 {
		t.Error("the watch has a connection of the base transport")
	}
	if suite := response.TLS.CipherSuite; !slices.Contains(approvedSuites, suite) {
		t.Errorf("cipher suite: got %s, want an approved one", tls.CipherSuiteName(suite))
	}
}
