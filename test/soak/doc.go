// SPDX-License-Identifier: Apache-2.0

// Package soak runs managers of Secrets and ConfigMaps under load and faults, and checks all the time what they
// return.
//
// A run is a list of cycles. In each there is load: pods are registered, updated and unregistered, and so streams end
// and open; objects are updated, deleted and created again, and a tenth of them is immutable; other managers on the
// same server are started, and stopped at a random time. Meanwhile a fault is injected and healed. Then the load
// ends, and all objects must become fresh. The streams are parked.
//
// The rules about time do not hold during a fault, which affects all objects here, nor while they recover. So after
// some cycles ([Cycle].Calm) there is load without a fault for longer than that. At the end of a run there is neither a
// fault nor load, until Changes must have yielded everything.
//
// The cycles of [Run] are four quarters of a period. In each, connections are cut and become half open; in the third
// one the server crashes. Load without a fault follows the last one. The network of the client is in this process
// ([rest.Config].Dial), so it can cut one connection of many: see package test/network. [RunCycles] takes the faults
// from the caller: test/e2e/chaos has those of a real control plane.
//
// # What is checked
//
//   - What every Get returns, what Changes yields, every request and every dial, by package test/history. The run fails
//     if it has not decided a rule. L3 is decided only if requests fail. S6 and L2 need a server that reports the
//     streams of each object ([Server].Observe): a real one does not.
//   - After each cycle all objects are fresh in time: within twice [Options].Fresh after a quarter.
//   - The server has no more streams then than there are objects.
//   - A half-open connection is noticed within a minute.
//   - A manager that is stopped during a fault returns from Run within ten seconds.
//   - The heap does not grow, if [Options].HeapGrowth is set.
//   - At most four times as many connections are dialed as streams need: one for each hundred streams, at the start and
//     after a crash, and one for each that was cut or half open.
//   - When all pods are unregistered, the server has no stream; when the managers have stopped and idle connections
//     are closed, no connection and no goroutine is left, and at most 15 % of the heap.
//
// # Flags and output
//
// [Flags] defines a flag for each field of [Options]: -soak.period, -soak.objects, -soak.updates, -soak.churn,
// -soak.faults, -soak.fresh, -soak.heap-growth and -soak.history. Without flags a run takes half a minute. To run
// five minutes with 3,000 objects:
//
//	go test -v -count=1 -timeout 0 ./test/soak -args -soak.period=5m -soak.fresh=15s -soak.objects=3000
//
// With -v a line each ten seconds shows the progress, and a line each cycle the result. There, an object is stale
// while a Get or Changes lacks its newest state: some are while there are writes and faults, and none may be when
// they have stopped. A table at the end has the result of all cycles. The time in it is that of the whole run.
// Below it stands how often each rule was decided.
//
// With -soak.history=FILE the history of a run is kept, some megabytes a second, and can be checked again:
//
//	go run ./test/history/check FILE
//
// If RELIABILITY_RESULTS names a file, the run adds what it has counted: see package test/reliability.
package soak
