// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"net/http"
	"testing"
)

// answers is a base transport whose responses have no body.
type answers struct{}

func (answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// The context of a request says why the body of its response cannot be parked.
func TestWhyNoBody(t *testing.T) {
	tests := map[string]struct {
		url  string // empty: no request passes the transport
		want error
	}{
		"no request":              {"", errNotPassed},
		"watch without TLS":       {"http://server/secrets?watch=true", errNoHTTP2},
		"base without HTTP/2":     {"https://server/secrets?watch=true", errNoHTTP2},
		"request of another kind": {"https://server/secrets", errNoHTTP2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := WithParking(t.Context())
			if test.url != "" {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, test.url, nil)
				check(t, err)
				response, err := New(answers{}).RoundTrip(request)
				check(t, err)
				_ = response.Body.Close()
			}
			if got := WhyNoBody(ctx); !errors.Is(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := WhyNoBody(t.Context()); !errors.Is(got, errUnmarked) {
		t.Errorf("without WithParking: got %v, want %v", got, errUnmarked)
	}
}
