// SPDX-License-Identifier: Apache-2.0

// Package conformance tests the promises of stores, a manager and a reflector, and the server behaviour that these
// promises depend on.
//
// A [Rig] is a server under test: its configuration, and functions that break its streams, compact its history and
// count its open streams. [Run] runs every case on a rig, each in a namespace of its own. A case about the server runs
// once, a case about the library runs once with each strategy that it applies to: with the one that watches, once with
// parked streams and once with blocking ones. client-go's Reflector runs the cases about reflectors, as the reference.
//
// The same cases run on [github.com/refwatch/refwatch/test/apiserver] in this package's tests, and on a real
// kube-apiserver with etcd in test/e2e: in JSON and in protobuf, with WatchList and without. This compares the two
// servers, the library on both, its three strategies, and its reflector with client-go's.
//
// [Results] collects the outcomes, and [Tables] formats them for make e2e.
package conformance
