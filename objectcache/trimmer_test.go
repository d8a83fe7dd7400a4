// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// fixedTransport is a transport with one response.
type fixedTransport struct {
	response *http.Response
	err      error
}

func (f fixedTransport) RoundTrip(*http.Request) (*http.Response, error) { return f.response, f.err }

// A trimmer empties the response that an HTTP/2 transport keeps, and returns a
// complete one. An HTTP/1 transport keeps nothing.
func TestTrimmer(t *testing.T) {
	for protocol, trimmed := range map[int]bool{1: false, 2: true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		kept := &http.Response{
			StatusCode: http.StatusOK, Status: "200 OK", ProtoMajor: protocol, Header: http.Header{"Content-Type": {"text/plain"}},
			Body: io.NopCloser(strings.NewReader("body")), Request: request, TLS: &tls.ConnectionState{}, ContentLength: 4,
		}
		response, err := trim(fixedTransport{response: kept}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || response.Status != "200 OK" || response.Header.Get("Content-Type") != "text/plain" ||
			response.Request != request || response.TLS == nil || response.ContentLength != 4 || string(body) != "body" {
			t.Errorf("HTTP/%d: got %+v, want the complete response", protocol, response)
		}
		if got := kept.Header == nil && kept.Request == nil && kept.TLS == nil; got != trimmed || (response == kept) == trimmed {
			t.Errorf("HTTP/%d: got trimmed %v, want %v", protocol, got, trimmed)
		}
	}
}

func TestTrimmerReturnsErrors(t *testing.T) {
	refused := errors.New("connection refused")
	within := fixedTransport{err: refused}
	trimmer := trim(within)
	response, err := trimmer.RoundTrip(nil)
	if response != nil {
		_ = response.Body.Close()
	}
	if response != nil || !errors.Is(err, refused) {
		t.Errorf("got %v and %v, want only %v", response, err, refused)
	}
	if got := trimmer.(utilnet.RoundTripperWrapper).WrappedRoundTripper(); got != http.RoundTripper(within) {
		t.Errorf("transport within: got %v, want %v", got, within)
	}
}
