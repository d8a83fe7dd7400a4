// SPDX-License-Identifier: Apache-2.0

// Package history checks what a cache returns against what was written to the server.
//
// A [History] has an [Object] for each object under test. The test reports to it, from any goroutine, when a write
// begins and how it ends, when references are added and deleted, when a Get begins and what it returns, and what a
// range over Changes yields:
//
//	number := object.BeginWrite()
//	created, err := client.Create(ctx, objectWith(number), metav1.CreateOptions{})
//	object.Acknowledge(number, created.UID, created.ResourceVersion)
//	...
//	get := object.BeginGet()
//	secret, err := secrets.Get(ctx, namespace, name)
//	get.Return(stateOf(secret), err)
//
// The writes to one object follow each other, and each has the number that BeginWrite or BeginDelete returned. The test
// stores it in the object's data, so that each state says which write it is. A write whose outcome is unknown is read
// back from the server, and then acknowledged or abandoned.
//
// # What is checked
//
// These are the promises of package objectcache, as far as they hold at any moment, whatever fails meanwhile:
//
//   - A Get returns what one of the writes wrote, with the UID and version that the server gave to it.
//   - A Get returns no older state than any Get that returned before it began. That holds for all goroutines together,
//     and across references.
//   - A Get returns no older state than the newest write that was acknowledged before the first reference.
//   - A Get returns NotFound only if the object was absent at some time that the two rules above leave.
//   - While an owner references the object, no Get returns ErrNotRegistered, and after a Get has returned a state, no
//     later one returns ErrNotSynced. Other errors are never returned.
//   - Changes yields the states in their order, and one state again only after a new owner.
//
// How soon a state arrives depends on the faults. The test decides when all must be fresh: see [Get.Return] and
// [Object.YieldedNewest].
//
// There is one epoch: the server is not rolled back. Options under which Get may return an older state or no state,
// such as WatchOptions.IdleTimeout, MaxStaleness or MaxStreams, and immutable objects are not covered.
package history
