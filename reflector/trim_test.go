// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/refwatch/refwatch/reflector"
)

// canned is a transport with one answer.
type canned struct {
	answer *http.Response
	err    error
}

func (c canned) RoundTrip(*http.Request) (*http.Response, error) { return c.answer, c.err }

// What an open HTTP/2 stream keeps is let go of; who asked has it all the same.
// Over HTTP/1 nothing is kept anyway.
func TestTrim(t *testing.T) {
	for protocol, trimmed := range map[int]bool{1: false, 2: true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.test", nil)
		if err != nil {
			t.Fatal(err)
		}
		within := &http.Response{
			StatusCode: http.StatusOK, Status: "200 OK", ProtoMajor: protocol, Header: http.Header{"Content-Type": {"text/plain"}},
			Body: io.NopCloser(strings.NewReader("body")), Request: request, TLS: &tls.ConnectionState{}, ContentLength: 4,
		}
		answer, err := reflector.Trim(canned{answer: within}).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Status != "200 OK" || answer.Header.Get("Content-Type") != "text/plain" ||
			answer.Request != request || answer.TLS == nil || answer.ContentLength != 4 || string(body) != "body" {
			t.Errorf("HTTP/%d: got %+v, want the answer whole", protocol, answer)
		}
		if got := within.Header == nil && within.Request == nil && within.TLS == nil; got != trimmed || (answer == within) == trimmed {
			t.Errorf("HTTP/%d: got trimmed %v, want %v", protocol, got, trimmed)
		}
	}
}

func TestTrimHandsOnErrors(t *testing.T) {
	broken := errors.New("connection refused")
	inner := canned{err: broken}
	trim := reflector.Trim(inner)
	answer, err := trim.RoundTrip(nil)
	if answer != nil {
		_ = answer.Body.Close()
	}
	if answer != nil || !errors.Is(err, broken) {
		t.Errorf("got %v and %v, want %v alone", answer, err, broken)
	}
	if got := trim.(utilnet.RoundTripperWrapper).WrappedRoundTripper(); got != http.RoundTripper(inner) {
		t.Errorf("transport within: got %v, want %v", got, inner)
	}
}
