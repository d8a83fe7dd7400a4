// SPDX-License-Identifier: Apache-2.0

// Package states decides which answer about a Kubernetes object is the newest.
//
// [CheckObject] and [CheckRead] return what an answer of the server shows, or why it cannot
// be right. [Order] decides whether that is newer than the [State] that is held. The stores
// of package objectcache have an Order for each object.
//
//   - Within an epoch the state never goes back. A read that is older than what was seen is
//     late, and so is an event that is not newer. One exception: a deletion may have the
//     version of the object that is held.
//   - An epoch ends when the server was rolled back (an etcd restore). An Order notices that
//     in a read, or [Order.NewEpoch] says so. The number of the epoch never decreases.
package states
