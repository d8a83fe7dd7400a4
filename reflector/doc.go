// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps a store equal to one selection on an API server.
//
// A [Reflector] lists and watches a [listwatch.Source] and writes what it reads to a
// [Store]. A [Gate] decides when it may send a request. Any client-go store will do, and
// any queue (FIFO, DeltaFIFO, RealFIFO).
// docs/guides/from-reflector.md compares it with client-go's reflector, option by option.
//
// # Guarantees
//
//   - The first read is a consistent one (resourceVersion ""). So is the read after an
//     expired version (410), after a version that is too large, after a malformed
//     answer, and the next one after any reflector of the gate has found that the
//     server was rolled back.
//   - Where the server serves WatchList (KEP-3157), one stream delivers the state and
//     then the changes. Where the server refuses WatchLists as such, the reflector lists
//     and then watches, for an hour. It does so for a minute, and for twice as long each
//     time, where WatchLists end before the state, or where watches fail and lists work.
//     The gate remembers this by resource. Where WatchLists have worked before, it takes
//     several that break; a reflector then lists after its own second one.
//   - Every later stream begins with the state again, from the last version seen. A
//     plain watch at a version from the future, as after an etcd restore, is silent for
//     ever; a read at that version is refused.
//   - A stream that delivers nothing for two minutes, not even a bookmark, is compared
//     with a consistent list within half a minute. If the list shows something else, the
//     event may be under way: if the stream delivers nothing for a minute and a half
//     more, the reflector ends it within half a minute, and reads consistently. If the
//     list is older than the stream, the reflector ends the stream at once.
//   - A consistent read below the highest version seen proves that the server was
//     rolled back. The store and the other reflectors of the gate are notified.
//   - A store gets each event of a stream once, and the whole state, by Replace, at the
//     start of every stream. From that, client-go's DeltaFIFO and RealFIFO find the
//     objects that were deleted meanwhile. client-go's own Reflector resumes some
//     streams without the state.
//   - An object that the store refuses ([Store]), or that is not of Options.ExpectedType,
//     never reaches it; the stream ends and another follows.
//   - [Reflector.Status] keeps the cause of the last failure. The pause after a failure
//     is jittered and at most 15 s long, or as long as the server's Retry-After, up to a
//     minute. [Reflector.Expedite] shortens one pause, for a caller that waits.
//   - A reflector polls only where lists work and watches do not: they are refused, or
//     fail with 5xx, 429 or a lost connection. It asks the server to end each stream after
//     30 to 60 minutes, jittered.
//   - A reflector follows its selection from Run on. It does so until [Reflector.Read],
//     which reads once and keeps no stream open, or [Reflector.Pause], after which it
//     sends nothing. [Reflector.Follow] opens a stream again.
//   - No object data appears in logs: client-go gets a logger that logs nothing at the
//     levels at which it prints objects (8 and above).
//
// # Goroutines
//
// [Reflector.Run] blocks. All that it started has ended when it returns.
// [Reflector.Start] returns at once, for a program with many reflectors. A reflector that
// waits for admission has no goroutine. With Options.ResyncPeriod one goroutine calls the
// store's Resync, never while another call writes the store. A [Gate] has timers, and
// goroutines only while a parked stream has something, and one of them for 5 s after.
//
// A session is one life of a stream: a complete read and the changes after it. When it
// ends, the reflector decides when the next session begins, and at which version.
//
// A session runs on a goroutine of its own until its state is stored. Then the stream is
// parked, if its source allows that ([listwatch.Parkable]): it has no goroutine from then on,
// and a few workers of the Gate decode and store what comes later. With Options.Prompt, small
// events are handled on the goroutine that reads the connection, and a [BookmarkTaker] gets
// bookmarks there. Both must be quick: all streams of the connection wait for them.
//
// Without Prompt a store that takes long for one object delays no other. If as many stores
// block as there are workers, more start: one after 50 ms, and then twice as many each
// time. So stores that block delay others by less than a second.
//
// [listwatch.FromREST] allows it with a client of resource.ConfigFor. A stream that cannot be
// parked has a goroutine that reads it, and net/http's HTTP/2 client has another one for each.
// The guarantees are the same.
package reflector
