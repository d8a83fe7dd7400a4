// SPDX-License-Identifier: Apache-2.0

// Package interop tests the HTTP/2 client of package internal/h2 against servers of other projects:
//
//   - h2spec, which sends a client what RFC 9113 allows and forbids, and checks how it answers;
//   - nginx and HAProxy, which stand in front of many API servers: their limits, their reloads, their time-outs;
//   - the HTTP/2 servers of net/http and of golang.org/x/net, with unusual limits.
//
// Envoy is not tested, because Debian has no package of it. net/http's client runs beside, for comparison. It is a
// module of its own, because no other module needs h2spec.
//
// "make interop" runs the tests. They need nginx and haproxy in PATH or in /usr/sbin. A table of
// what they try, and of the results, is written by:
//
//	go test . -table ../../_output/interop.md
package interop
