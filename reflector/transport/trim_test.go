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
	header := http.Header{"Content-Type": {"text/plain"}}
	kept := &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody, ContentLength: 4,
		Header: header, Request: request, TLS: &tls.ConnectionState{},
	}
	response := trim(kept, request)
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK || response.Status != "200 OK" || response.Proto != "HTTP/2.0" ||
		response.Header.Get("Content-Type") != "text/plain" || response.Request != request || response.TLS == nil ||
		response.ContentLength != 4 || response.Body != http.NoBody {
		t.Errorf("got %+v, want the complete response", response)
	}
	if response == kept || kept.Header != nil || kept.Request != nil || kept.TLS != nil {
		t.Errorf("kept: got %+v, want it without header, request and TLS", kept)
	}
	if keepsMaps && len(header) > 0 {
		t.Errorf("kept header: got %v, want it empty", header)
	}
}

// A request that was lent is emptied when it was written, and the caller's never.
func TestLoan(t *testing.T) {
	if !keepsMaps {
		t.Skip("this version of net/http does not keep the request")
	}
	const address = "https://example.test/api?watch=true"
	for name, written := range map[string]bool{"written": true, "not written yet": false} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer token")
		lent := lend(request)
		if got := lent.request; got.Header.Get("Authorization") != "Bearer token" || got.URL.String() != address {
			t.Errorf("%s: lent %v with %v, want the same request", name, got.URL, got.Header)
		}
		lent.written.Store(written)
		lent.takeBack()
		if emptied := len(lent.request.Header) == 0 && lent.request.URL.String() == ""; emptied != written {
			t.Errorf("%s: emptied %v, want %v", name, emptied, written)
		}
		if request.Header.Get("Authorization") != "Bearer token" || request.URL.String() != address {
			t.Errorf("%s: the caller's request is now %v with %v", name, request.URL, request.Header)
		}
	}
}
