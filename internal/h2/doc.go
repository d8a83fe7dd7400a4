// SPDX-License-Identifier: Apache-2.0

// Package h2 is the HTTP transport of streams. It stands between client-go's
// wrappers (tokens, exec plugins, impersonation, user agent) and client-go's own
// transport, and takes the watches of stores and reflectors: GET requests over TLS with
// watch=true whose context is from [WithParking]. Everything else goes to client-go's
// transport, as do watches of a server that does not speak HTTP/2.
//
// It differs from net/http in two ways.
//
// Dials are coalesced. net/http dials a connection for every request that finds all
// connections full: 500 to 950 of them for 5,000 streams that need 50. Here the
// requests that find no room wait together, and one connection is dialled for each 100
// of them.
//
// An open stream needs no goroutine. net/http has one for each stream, and a second one
// blocks in Read of the body. The HTTP/2 client of this package has one goroutine for
// each connection, and the body of a response can pass its data to a [Receiver].
//
// The reflectors and stores of this module use the HTTP/2 client of this package if their client
// has the transport of resource.ConfigFor. Their programs need none of the names here.
package h2
