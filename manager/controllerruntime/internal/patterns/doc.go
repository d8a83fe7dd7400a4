// SPDX-License-Identifier: Apache-2.0

// Package patterns tests package controllerruntime under the operators that use it. It has only tests.
//
// Each pattern of [the guide] is a small operator: a manager of controller-runtime with one controller. Package
// test/model runs it as a Subject: the pods of a schedule are its custom resources, what the reconciles have read last
// is what a follower sees, and a step restarts it. A failure prints the schedule, and the seed of the run:
//
//	go test -run TestPatterns ./internal/patterns -patterns.seed=77 -patterns.schedules=25
//
// So the rules of package history, the faults, and the printed and
// shrunk schedules are those of the library itself. A runner of its own would have had fewer faults, and a second copy
// of the rules.
//
// # What is checked
//
// For each pattern that works, by the guide:
//
//   - Gets of the operator return no state that goes back or that the server never had, and the newest one once all is
//     quiet (S1 to S5, L1). This holds across restarts.
//   - What reconciles have read last, of each custom resource, is the newest state in the end, after another write, and
//     whenever a schedule looks while no fault is there (S10).
//   - There are no requests but those of the pattern: lists and watches of one Secret by its name, of the selected
//     Secrets, or of all metadata, and its own writes (S7). They are bounded (L3), where no client of client-go sends
//     them, and so are the streams of an object (S6).
//   - A manager ends within a second. Then no stream, request, connection or goroutine is left (L2).
//
// A pattern whose handlers are silent promises no reconcile. There the Gets are checked, that no handler is called, and
// that each process that has run for a minute has noted it.
//
// Patterns that need what the stock cache holds, or that read live, meet only the faults that client-go survives, and
// have more time after them. So has a worker that waits for an object that hangs.
//
// The Secrets have no owner references, so Owns is Watches with a map function: to the cache it is the same.
//
// The custom resources are in a real informer of the stock cache, whose source is in the memory of the test: what the
// stock cache makes of a fault delays no reconcile. What it holds of Secrets passes the same network as all else.
//
// [the guide]: https://github.com/refwatch/refwatch/blob/main/docs/guides/controllers.md#does-my-operator-fit
package patterns
