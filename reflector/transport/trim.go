// SPDX-License-Identifier: Apache-2.0

package transport

import "net/http"

// trim returns a copy of a response of net/http's HTTP/2 client, and empties what that
// client keeps for as long as the body is read: the header, the request and the state
// of the connection, about 1.5 KB.
func trim(response *http.Response) *http.Response {
	if response == nil {
		return nil
	}
	complete := *response
	response.Header, response.Request, response.TLS = nil, nil, nil
	return &complete
}
