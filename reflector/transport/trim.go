// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

// Empties what an open stream of net/http keeps without need.

// trim returns a copy of response with request as its request, and empties what net/http
// keeps for as long as the body is read: the http.Response that it has returned, which
// refers to about 1.5 KB.
func trim(response *http.Response, request *http.Request) *http.Response {
	complete := *response
	complete.Request = request
	if keepsMaps {
		complete.Header = maps.Clone(response.Header)
		clear(response.Header)
	}
	response.Header, response.Request, response.TLS = nil, nil, nil
	return &complete
}

// loan is a copy of a request whose contents can be taken back, for a client that keeps
// them: the bearer token alone is often 1 KB.
type loan struct {
	request *http.Request
	written *atomic.Bool // the client reads the request no more; nil if it does not keep it
}

func lend(request *http.Request) loan {
	if !keepsMaps {
		return loan{request: request}
	}
	written := new(atomic.Bool)
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	lent := request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	lent.Header = maps.Clone(request.Header)
	address := *request.URL
	lent.URL = &address
	return loan{request: lent, written: written}
}

// takeBack empties the copy. A server may respond before the request is written; then
// the copy stays as it is.
func (l loan) takeBack() {
	if l.written != nil && l.written.Load() {
		clear(l.request.Header)
		*l.request.URL = url.URL{}
	}
}
