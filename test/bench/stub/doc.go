// SPDX-License-Identifier: Apache-2.0

// Package stub is an API server that serves Secrets from memory to very many watches. It answers a list and a watch of
// one Secret by its name, in protobuf, over TLS and HTTP/2, and nothing else. It authenticates nobody.
//
// It costs as little as it can, so that a hundred thousand streams and their client fit into one small machine: one
// goroutine for each connection, and none for a stream. Like kube-apiserver by default, it allows 100 streams on a
// connection. It sends no bookmarks but the one that ends the initial events.
package stub
