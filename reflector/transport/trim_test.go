// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// What net/http keeps is emptied, and the caller gets a complete response.
func TestTrim(t *testing.T) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.test", nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody, ContentLength: 4,
		Header: http.Header{"Content-Type": {"text/plain"}}, Request: request, TLS: &tls.ConnectionState{},
	}
	response := trim(kept)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK || response.Status != "200 OK" || response.Proto != "HTTP/2.0" ||
		response.Header.Get("Content-Type") != "text/plain" || response.Request != request || response.TLS == nil ||
		response.ContentLength != 4 || response.Body != http.NoBody {
		t.Errorf("got %+v, want the complete response", response)
	}
	if response == kept || kept.Header != nil || kept.Request != nil || kept.TLS != nil {
		t.Errorf("kept: got %+v, want it without header, request and TLS", kept)
	}
}
