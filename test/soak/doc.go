// SPDX-License-Identifier: Apache-2.0

// Package soak runs managers of Secrets and ConfigMaps under load and faults, and checks all the time what they return.
//
// [Run] does all of this at the same time, for a period: pods are registered, updated and unregistered, and so streams
// end and open; objects are updated, deleted and created again; connections are cut and become half open; the server
// crashes. The network of the client is in this process ([rest.Config].Dial), so it can cut one connection of many.
// Streams are parked.
//
// # What is checked
//
//   - What every Get returns, and what Changes yields, by package test/history.
//   - After each quarter of the period the faults and the churn stop, and all objects must be fresh within 30 s.
//   - A half-open connection is noticed within a minute.
//   - The heap does not grow, if [Options].HeapGrowth is set.
//   - At most twice as many connections are dialed as are needed: one for each hundred streams, at the start and after
//     a crash, and one for each that was cut or half open.
//   - When all pods are unregistered, the server has no stream; when the managers have stopped and idle connections are
//     closed, no connection and no goroutine is left, and at most a tenth of the heap.
//
// # Flags and output
//
// [Flags] defines a flag for each field of [Options]: -soak.period, -soak.objects, -soak.updates, -soak.churn,
// -soak.faults and -soak.heap-growth. Without flags a run takes some seconds. To run five minutes with 3,000 objects:
//
//	go test -v -count=1 -timeout 0 ./test/soak -args -soak.period=5m -soak.objects=3000
//
// With -v a line each ten seconds shows the progress. There, an object is stale while a Get or Changes lacks its newest
// state: some are while there are writes and faults, and none may be when they have stopped. A table at the end has the
// result. The time in it is that of the whole run, with the pauses in which all objects become fresh: it is longer than
// the period.
package soak
