// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/reflector/transport"
)

// parking returns a copy of config for the engine that parks its streams. The case fails if a watch has a body that
// cannot be parked.
func (s *suite) parking(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(base http.RoundTripper) http.RoundTripper { return parkingTripper{transport.New(base), s} })
	return config
}

type parkingTripper struct {
	*transport.Transport

	suite *suite
}

func (t parkingTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK || !request.URL.Query().Has("watch") {
		return response, err
	}
	if _, ok := response.Body.(transport.Body); !ok {
		t.suite.Errorf("watch over %s: got a body of type %T, want one that can be parked", response.Proto, response.Body)
	}
	return response, nil
}
