// SPDX-License-Identifier: Apache-2.0

// Package cache holds the last known state of one Kubernetes object.
//
// One reflector writes a [Slot]; any number of goroutines read it. A Slot
// implements [k8s.io/client-go/tools/cache.ReflectorStore], so client-go's
// Reflector can write it too.
//
// # Guarantees for readers
//
//   - [Slot.Load] is one atomic load. It never blocks and never allocates.
//   - Load returns one object as the server sent it, never a mix of two.
//   - A slot stores only the object that it was made for. It drops objects of
//     another name, namespace or Go type.
//   - Within an epoch the state never goes back. A slot drops reads that are older
//     than what it has seen, and events that are not newer. One exception: a
//     deletion may have the version of the object that is held.
//   - Objects have no managedFields.
//   - An epoch ends when the server was rolled back (an etcd restore). The slot
//     notices that in a read, or [Slot.NewEpoch] says so. The number never decreases,
//     also when [Slot.Next] hands over to another writer.
//   - The channel of [Slot.Changed] is closed at the next change of state.
//
// [Order] has the rules of which answer is the newest. A slot is an Order with a key and a
// lock, for programs that run a Reflector themselves. The stores of package objectcache have an
// Order for each object.
//
// # Guarantees for writers
//
// The methods that store return no error, because client-go's Reflector logs the
// whole object with a store's error, secret data included. [Slot.Check] and
// [Slot.CheckRead] return in advance why a slot does not accept an object or a read.
//
// client-go's Reflector does not report that the server was rolled back. A slot that it
// writes then keeps its state until the server's versions have passed those that the
// slot has seen, or until another Reflector writes the slot that [Slot.Next] returns.
//
// # Sharing
//
// All readers share an object and must not change it, as with client-go's
// listers. The slot owns the objects that it is given: the writer must not keep
// or change them.
package cache
