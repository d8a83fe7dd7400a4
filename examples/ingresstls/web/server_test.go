// SPDX-License-Identifier: Apache-2.0

package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// client returns an HTTPS client of the rig's server.
func (r *rig) client() *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: r.trusted, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		},
	}
	r.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(client *http.Client, host string) (string, error) {
	response, err := client.Get("https://" + host + "/")
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}

// The answer names the certificate that its connection presented, also after the next rotation.
func TestAnswer(t *testing.T) {
	r := newRig(t, func(r *rig) { r.create("a", "a.test"); r.create("b", "b.test") })
	old, fresh := r.client(), r.client()
	first, err := get(old, "a.test")
	if err != nil || !strings.Contains(first, "host    a.test\nserial  2\n") || !strings.Contains(first, "secret  default/a, resourceVersion ") {
		t.Errorf("answer: got error %v and\n%s\nwant host a.test, serial 2 and Secret default/a", err, first)
	}
	serial := r.rotate("a", "a.test")
	r.awaitSerial("a.test", serial)
	if again, err := get(old, "a.test"); err != nil || again != first {
		t.Errorf("answer on the old connection: got error %v and\n%s\nwant\n%s", err, again, first)
	}
	if got, err := get(fresh, "a.test"); err != nil || !strings.Contains(got, fmt.Sprintf("serial  %d\n", serial)) {
		t.Errorf("answer on a new connection: got error %v and\n%s\nwant serial %d", err, got, serial)
	}
	if _, err := get(fresh, "unknown.test"); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("unknown host: got error %v, want the alert unrecognized_name", err)
	}
}

// A client that offers a ticket makes a full handshake: a resumed session would not present the new certificate.
func TestSessionsAreNotResumed(t *testing.T) {
	r := newRig(t, func(r *rig) { r.create("a", "a.test") })
	config := &tls.Config{
		ServerName: "a.test", RootCAs: r.trusted, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	for range 2 {
		transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", r.address)
		}}
		response, err := (&http.Client{Transport: transport}).Get("https://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		if response.TLS.DidResume {
			t.Error("the session was resumed")
		}
		_ = response.Body.Close()
		transport.CloseIdleConnections()
	}
}

// When Serve ends, it closes the listener, and the connections without a request.
func TestStop(t *testing.T) {
	r := newRig(t, func(r *rig) { r.create("a", "a.test") })
	conn, err := tls.Dial("tcp", r.address, &tls.Config{ServerName: "a.test", RootCAs: r.trusted, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server closes it
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	if err := r.stop(); err != nil {
		t.Errorf("Serve: got error %v, want none", err)
	}
	if rest, err := io.ReadAll(conn); err != nil || !strings.Contains(string(rest), "secret  default/a") {
		t.Errorf("answer: got error %v and\n%s\nwant the whole", err, rest)
	}
	if _, err := net.Dial("tcp", r.address); err == nil {
		t.Error("the server accepts connections")
	}
}
