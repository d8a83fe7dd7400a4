// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/internal/h2"
)

// streaming returns a copy of config with the transport of resource.ConfigFor, unless the engine blocks. The case fails
// if a watch can be parked with the engine that blocks, or cannot with the other one.
func (s *suite) streaming(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		if !s.engine.blocking {
			base = h2.New(base)
		}
		return checkedTransport{base, s}
	})
	return config
}

type checkedTransport struct {
	http.RoundTripper

	suite *suite
}

// WrappedRoundTripper lets client-go find the transport within.
func (t checkedTransport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t checkedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || !request.URL.Query().Has("watch") {
		return response, err
	}
	if _, got := response.Body.(h2.Body); got != t.suite.engine.parks() {
		t.suite.Errorf("watch over %s: got a body of type %T, parkable: %v, want %v", response.Proto, response.Body, got, !got)
	}
	return response, nil
}
