// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps a store of client-go equal to one selection on an API server.
//
// A [Reflector] lists and watches with a ListerWatcher of client-go, and writes what it reads to a
// store. Any client-go store will do, and any queue (FIFO, DeltaFIFO, RealFIFO).
// docs/guides/from-reflector.md compares it with client-go's reflector, option by option.
//
// # Guarantees
//
//   - The first read is a consistent one (resourceVersion ""). So is the read after an
//     expired version (410), after a version that is too large, after a malformed
//     answer, and the next one after any reflector of the Gate has found that the
//     server was rolled back.
//   - Where the server serves WatchList (KEP-3157), one stream delivers the state and
//     then the changes. Elsewhere the reflector lists and then watches.
//   - Every later stream begins with the state again, from the last version seen. A
//     plain watch at a version from the future, as after an etcd restore, is silent for
//     ever; a read at that version is refused.
//   - A stream that delivers nothing for two minutes, not even a bookmark, is compared
//     with a consistent list within half a minute. If the list shows something else, the
//     event may be under way: if the stream delivers nothing for a minute and a half
//     more, the reflector ends it within half a minute, and reads consistently. If the
//     list is older than the stream, the reflector ends the stream at once.
//   - A consistent read below the highest version seen proves that the server was
//     rolled back. The other reflectors of the Gate are notified.
//   - A store gets each event of a stream once, and the whole state, by Replace, at the
//     start of every stream. From that, client-go's DeltaFIFO and RealFIFO find the
//     objects that were deleted meanwhile. client-go's own Reflector resumes some
//     streams without the state.
//   - An object that is not of Options.ExpectedType never reaches the store; the stream ends
//     and another follows.
//   - [Reflector.Status] keeps the cause of the last failure. The pause after a failure
//     is jittered and at most 15 s long, or as long as the server's Retry-After, up to a
//     minute.
//   - A reflector polls only where lists work and watches do not: they are refused, or
//     fail with 5xx, 429 or a lost connection. It asks the server to end each stream after
//     30 to 60 minutes, jittered.
//   - No object data appears in logs: client-go gets a logger that logs nothing at the
//     levels at which it prints objects (8 and above). Logs and errors show an error of the
//     ListerWatcher if it is an API status, and otherwise the part of it that quotes no object.
package reflector
