// SPDX-License-Identifier: Apache-2.0

package reflector

import "net/http"

// Trim returns a RoundTripper that lets go of what an open stream would keep for
// up to an hour and nobody needs: the header of the answer, its request and its
// connection state, about 1.5 KB. An HTTP/2 transport keeps the answer for as
// long as its body is read.
//
// It is for next to the transport itself: it empties the answer that it is given,
// and hands on a copy that is whole.
func Trim(next http.RoundTripper) http.RoundTripper { return trimmer{next} }

type trimmer struct{ http.RoundTripper }

func (t trimmer) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(request)
	if err != nil || answer == nil || answer.ProtoMajor < 2 {
		return answer, err
	}
	whole := *answer
	answer.Header, answer.Request, answer.TLS = nil, nil, nil
	return &whole, nil
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, for who
// looks for the transport within.
func (t trimmer) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
