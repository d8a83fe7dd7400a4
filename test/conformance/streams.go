// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/internal/h2"
)

// streaming returns a copy of config with the transport of resource.ConfigFor. The case fails if a watch is parked
// with the engine that blocks, or cannot be parked with the other one.
func (s *suite) streaming(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return checkedTransport{h2.New(base), s} })
	return config
}

type checkedTransport struct {
	*h2.Transport

	suite *suite
}

func (t checkedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || !request.URL.Query().Has("watch") {
		return response, err
	}
	if _, got := response.Body.(h2.Body); got != t.suite.engine.parks() {
		t.suite.Errorf("watch over %s: got a body of type %T, parkable: %v, want %v", response.Proto, response.Body, got, !got)
	}
	return response, nil
}
