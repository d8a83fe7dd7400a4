// SPDX-License-Identifier: Apache-2.0

package objectcache

import "net/http"

// trimmer is a transport that drops what an open stream would keep for up to an
// hour without need: the header of the response, its request and its connection
// state, about 1.5 KB. An HTTP/2 transport keeps the http.Response for as long as
// its body is read.
//
// A trimmer belongs next to the transport itself: it empties the response that the
// transport returns, and returns a complete copy.
type trimmer struct{ http.RoundTripper }

func trim(next http.RoundTripper) http.RoundTripper { return trimmer{next} }

func (t trimmer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(request)
	if err != nil || response == nil || response.ProtoMajor < 2 {
		return response, err
	}
	complete := *response
	response.Header, response.Request, response.TLS = nil, nil, nil
	return &complete, nil
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, by which
// callers find the transport within.
func (t trimmer) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
