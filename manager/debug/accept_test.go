// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/refwatch/refwatch/objectcache"
)

// Each answer is compressed for a client that asks for it, and for no other. It is the same answer.
func TestCompression(t *testing.T) {
	tests := map[string]struct {
		accept []string
		want   bool
	}{
		"no header":            {nil, false},
		"an empty header":      {[]string{""}, false},
		"a browser":            {[]string{"gzip, deflate, br, zstd"}, true},
		"case":                 {[]string{"GZIP"}, true},
		"an old name":          {[]string{"x-gzip"}, true},
		"any":                  {[]string{"*"}, true},
		"two headers":          {[]string{"br", "gzip;q=0.1"}, true},
		"others":               {[]string{"br, deflate"}, false},
		"identity":             {[]string{"identity"}, false},
		"refused":              {[]string{"gzip;q=0"}, false},
		"refused, other forms": {[]string{"gzip; q=0.000, br"}, false},
		"refused before any":   {[]string{"*;q=1, gzip;q=0"}, false},
		"any is refused":       {[]string{"*;q=0"}, false},
		"gzip and no other":    {[]string{"identity;q=0, gzip"}, true},
		"malformed":            {[]string{"gzip;q=x"}, false},
		"another name":         {[]string{"gzipped"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, query := range []string{"", "?format=json", "?format=roles"} {
				synctest.Test(t, func(t *testing.T) {
					handler := secrets(t, object("tls", objectcache.PhaseServing))
					want := get(handler, query).Body.String()
					request := httptest.NewRequest(http.MethodGet, "/"+query, nil)
					for _, value := range test.accept {
						request.Header.Add("Accept-Encoding", value)
					}
					response := httptest.NewRecorder()
					handler.ServeHTTP(response, request)
					checkLength(t, response)
					if got := response.Header().Get("Content-Encoding") == "gzip"; got != test.want {
						t.Errorf("%q: got compression %v, want %v", query, got, test.want)
					}
					if got := decompress(t, response); got != want {
						t.Errorf("%q: got %q, want %q", query, got, want)
					}
					// HEAD has the headers of GET.
					request.Method = http.MethodHead
					head := httptest.NewRecorder()
					handler.ServeHTTP(head, request)
					for _, field := range []string{"Content-Encoding", "Content-Length", "Content-Type", "Vary"} {
						if head.Body.Len() != 0 || head.Header().Get(field) != response.Header().Get(field) {
							t.Errorf("%q: HEAD: got %d bytes and %s %q, want none and %q",
								query, head.Body.Len(), field, head.Header().Get(field), response.Header().Get(field))
						}
					}
				})
			}
		})
	}
}

func checkLength(t *testing.T, response *httptest.ResponseRecorder) {
	t.Helper()
	if got := response.Header().Get("Content-Length"); got != strconv.Itoa(response.Body.Len()) {
		t.Errorf("Content-Length: got %s, want %d", got, response.Body.Len())
	}
}

// decompress returns the body of a response.
func decompress(t *testing.T, response *httptest.ResponseRecorder) string {
	t.Helper()
	body := io.Reader(response.Body)
	if response.Header().Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			t.Fatal(err)
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
