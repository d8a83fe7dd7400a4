// SPDX-License-Identifier: Apache-2.0

// Package objectcache keeps the objects that something references, each by a
// list-and-watch of its own, and answers from memory.
//
// A [Resource] says how to reach one kind of object, a [WatchStore] is the cache. It
// implements [Store]. References are counted per key and owner UID: the first
// one starts a stream for that object alone, the last one ends it and drops the
// object from memory.
//
// # Usage
//
// Call [WatchStore.Run] once, in a goroutine that the program waits for. References
// may be added before; nothing is requested until then. Everything else may be
// called from any goroutine at any time. AddReference and DeleteReference never
// wait for the network.
//
// # Get
//
// [WatchStore.Get] answers from memory once its object has synced, without a lock
// and without allocating. Before that it waits, for as long as its context
// allows, and is woken by the sync. The errors say what went wrong, and every
// cause can be asked for with errors.Is and errors.As: see [WatchStore.Get]. An
// object is NotFound only if the server said so: a path that it does not serve
// (404) is another error.
//
// What Get returns is shared by all callers and must not be changed.
//
// # When a stream ends
//
//   - With the last reference; at once.
//   - When the object is immutable (`immutable: true`), unless
//     [WatchOptions.WatchImmutable] is set. It is served from memory from then on. A new
//     owner may mean a deleted and recreated object: it makes the store read the
//     object again, and Get waits for that read. Only if it fails, or the Get's
//     context ends, the state from before is served: those who had the object
//     keep it. The object is read again now and then as well
//     ([WatchOptions.ImmutableRecheck]), and nobody waits for that.
//   - When nobody has asked for the object in a while, if
//     [WatchOptions.IdleTimeout] is set. The object is dropped; the next Get
//     starts over and waits.
//   - When Run's context ends. Every Get then returns [ErrStopped].
//
// # Following changes
//
// [WatchStore.Changes] yields the objects that have changed or got an owner, newest
// state only. [WatchStore.Status] and [WatchStore.Statuses] return metadata only: no object data
// is in a status, an error or a log line.
package objectcache
