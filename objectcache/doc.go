// SPDX-License-Identifier: Apache-2.0

// Package objectcache keeps the objects that owners reference. Each object has a
// list-and-watch of its own, and is served from memory.
//
// A [resource.Resource] describes one kind of object and how to reach it. A [WatchStore]
// caches objects of that kind; it implements [Store]. References are counted per
// object and owner UID. The first reference to an object starts its stream. The
// last one to be deleted ends the stream and drops the object from memory.
//
// # Strategies
//
// kubelet has three strategies for the Secrets and ConfigMaps of its pods
// (configMapAndSecretChangeDetectionStrategy), and so has [NewStore]. Its options select
// one. The other sections are about a WatchStore.
//
//   - [WatchStore] (Watch): Get costs no request and returns the newest state, and
//     Changes yields each change at once. An object costs an open stream on the server,
//     and the verbs list and watch. This is the right one unless a reason speaks
//     against it.
//   - [TTLStore] (Cache): Get returns a state that is up to a minute old, or another
//     TTL, and reads the object when it is older. There are no streams, and no requests
//     without Gets. It is for a server on which open streams are too expensive, for
//     objects that are seldom needed, and for callers that may only get.
//   - [DirectStore] (Get): each Get is a request. It is for a program that reads an
//     object once, such as a job or a command, and for a comparison in a test.
//
// # Usage
//
// Call [WatchStore.Run] once, in a goroutine that the program waits for. It is
// the only method that blocks until the store stops. References may be added
// before Run; the store sends no request until then. All methods are safe for
// concurrent use. AddReference and DeleteReference never wait for the network.
//
// # Get
//
// [WatchStore.Get] serves an object from memory once it has synced, without a
// lock and without allocating. Before that it waits for as long as its context
// allows, and the sync wakes it; it gives up if the server refuses
// ([WatchOptions].RefusalGrace), and in an outage (OutageGrace). errors.Is and errors.As find every cause of its
// errors. apierrors.IsNotFound holds only if the server has no such object, and
// not if it answers 404 because it does not serve the path: see [resource.NotServedError].
//
// All callers share what Get returns. It must not be changed: test/history.NewStore finds
// callers that do.
//
// # When a stream ends
//
//   - At once when the last reference is deleted.
//   - When the object is immutable (`immutable: true`), unless
//     [WatchOptions.WatchImmutable] is set. The object is then served from memory.
//   - When no Get has asked for the object for [WatchOptions.IdleTimeout], if set.
//     The object is dropped from memory. The next Get opens a new stream and waits.
//   - When the context of Run ends. Every Get then returns [ErrStopped].
//
// # Immutable objects
//
// An immutable object without a stream may have been deleted and created again. So
// the store reads it again for each new owner, and Get waits for that read. If the
// read fails, no reflector reaches the server, or the context of the Get ends, Get
// returns the previous state: owners that had the object keep it. The store also reads
// the object again from time to time ([WatchOptions.ImmutableRecheck]); no Get waits
// for that.
//
// # An object as it is now
//
// To read an object as it is now, call GetWithOptions with [GetOptions].Live set. That needs a
// reference, and so a stream. Or take a [DirectStore], which has no streams and reads for each
// Get: it needs the right to get the object.
//
// # Options
//
// The zero value of each option is its default. A negative duration sets no bound, or means never,
// unless the option says otherwise. The same holds for the packages that stand on this one.
//
// # Gate
//
// A reflector lists and watches one object. Stores that reach one server as one user should share a
// [Gate] ([WatchOptions].Gate). It bounds how many streams their reflectors open at a time.
//
// # Parked streams
//
// A stream can be parked if its client is made from the config of [resource.ConfigFor], and the server
// speaks HTTP/2 over TLS. A parked stream has no goroutine while it is quiet; a stream of net/http has
// two. A store of parked streams has a goroutine for each connection, which carries as many streams as
// the server allows. A few goroutines of the [Gate] decode what is large, of the program's own types,
// or passes a function of WithTransform. A goroutine reads each stream that cannot be parked: those of
// [resource.FromSource], and of a config with a Transport, or whose WrapTransport replaces the body of
// the response. The guarantees are the same, but net/http does not bound the number of connections: it
// dials one for each request that finds all of them full.
//
// To park no streams, pass a config with a Transport: see [resource.ConfigFor].
//
// [Status].Parked and [Stats].ParkedStreams say which streams are parked, and the status
// of the [Gate], which [Stats] has, says why others are not.
//
// # Permissions
//
// Package [github.com/refwatch/refwatch/objectcache/access] returns the least Roles for a
// set of objects.
//
// # Changes and status
//
// [WatchStore.Changes] yields the first state of each object, also of one that is
// absent or refused, and then each object that changes or gets a new owner, in its
// newest state only. [WaitForSync] waits until the states of many objects are known.
// [WatchStore.Status] and [WatchStore.Statuses] return metadata. No status, error or log
// line holds object data.
package objectcache
