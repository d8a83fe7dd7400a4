// SPDX-License-Identifier: Apache-2.0

// Package cache holds the last known state of one Kubernetes object.
//
// A [Slot] is written by one reflector and read by anybody. It implements
// [k8s.io/client-go/tools/cache.ReflectorStore], so client-go's own Reflector
// can write it as well as ours.
//
// # What a reader may rely on
//
//   - [Slot.Load] is one atomic load: it never blocks and never allocates.
//   - What it returns is one object as the server sent it, never a mix of two.
//   - Only the object the slot was made for is ever stored. Anything of another
//     name, namespace or Go type is dropped and counted.
//   - Within an epoch the state never goes back: what is older than, or as old
//     as, what the slot has seen is dropped and counted. [Slot.NewEpoch] starts
//     a new epoch; only a writer that knows the server was rolled back (an etcd
//     restore) may call it. A deletion may come with the version of the object
//     that is held.
//   - Epochs never decrease, also across writers: see [Slot.Next].
//   - The channel of [Slot.Changed] is closed at the next change of state.
//
// # What a writer may rely on
//
// No method returns an error. client-go's Reflector logs the whole object,
// secret bytes and all, when a store returns one. What was dropped shows in
// [Slot.Dropped], and a writer that wants to act on it asks [Slot.Check] first.
//
// # Sharing
//
// Objects are shared between all readers and must not be changed, as with
// client-go's listers. The slot owns what it is given: the writer must not keep
// or change it.
package cache
