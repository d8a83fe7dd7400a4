// SPDX-License-Identifier: Apache-2.0

//go:build go1.27

package transport

// keepsMaps is whether net/http's HTTP/2 client keeps the header of the response, and
// the URL and the header of the request, for as long as the body is read.
const keepsMaps = true
