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
// A line each ten seconds shows the progress, a table at the end the result: run the test with -v.
package soak
