// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net/http"
)

// longestErrorBody is how much of the body of an error is read. A Status has a few hundred
// bytes. client-go reads the body of an error whole, however long it is.
const longestErrorBody = 1 << 20

// boundErrorBody lets the body of an error end after longestErrorBody.
func boundErrorBody(response *http.Response) {
	if response.StatusCode < http.StatusBadRequest || response.Body == nil {
		return
	}
	response.Body = errorBody{io.LimitReader(response.Body, longestErrorBody), response.Body}
}

// errorBody is the beginning of a body.
type errorBody struct {
	io.Reader
	io.Closer
}
