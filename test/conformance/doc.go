// SPDX-License-Identifier: Apache-2.0

// Package conformance says in cases what a watch store, a manager and a
// reflector promise, and what they need of a server for it.
//
// A [Rig] is a server with what the cases need of it beside the API: how to
// break its streams, how to make it forget, how many streams it has open.
// [Run] runs every case on a rig, each in a namespace of its own: those about the
// server once, those about the library with each of its engines. The same cases
// run on [github.com/refwatch/refwatch/test/apiserver] in this package's tests,
// and on a real kube-apiserver with etcd in test/e2e; in JSON and in protobuf;
// with WatchList and without. So one server is held against the other, the
// library against both, and its own engine against client-go's.
//
// [Results] collects how the cases went, and [Tables] writes them down as
// docs/conformance.md shows them.
package conformance
