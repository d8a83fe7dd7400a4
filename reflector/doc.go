// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps a store equal to one selection on an API server.
//
// A [Source] says where list and watch come from, a [Reflector] keeps a store
// equal to what they bring, a [Gate] says who may open a stream now. Any
// client-go store will do; [github.com/refwatch/refwatch/cache.Slot] is the one
// for a single object.
//
// # What is promised
//
//   - The first read is a consistent one (resourceVersion ""). So is the one
//     after an expired version (410), after one that is too large, and the first
//     one after any reflector of the gate has found the server rolled back.
//   - The state comes first, then the changes, on one stream where the server
//     offers it (WatchList, KEP-3157). Where WatchList is refused or broken, list
//     followed by watch takes over; the gate remembers that for up to an hour.
//   - Every later stream starts with the state again, from the last version
//     seen. A plain watch at a version from the future is silent for ever, as
//     after an etcd restore; a read at it is refused and so noticed.
//   - A stream that has brought nothing for two minutes, not even a bookmark, is
//     compared with a consistent list within half a minute. A
//     change that it should have brought ends it, for a consistent read.
//   - A consistent read below the highest version seen means that the server
//     was rolled back. A store that implements [EpochStore] is notified.
//   - An object that the store's [Guard] refuses never reaches the store; the
//     stream starts over.
//   - Failures are classed once ([Classify]) and kept with their cause
//     ([Status]). Pauses between attempts are jittered and at most 15 s long;
//     a server's Retry-After may ask for more, up to a minute. The [Gate] decides
//     whose attempt is next. [Reflector.Retry] cuts a pause short, for one attempt.
//   - Nothing is polled, except where the server allows lists and refuses watches. Each stream asks the server to end it after 30 to 60
//     minutes, jittered.
//   - No object data reaches a log: the logger that client-go gets is capped
//     below the level at which it prints bodies (8).
//
// # Goroutines
//
// [Reflector.Run] blocks. All that it starts has ended when it returns, but for
// client-go's pager, which may need an instant more to notice; it makes no
// request any more. A [Gate] has timers and no goroutine.
//
// # Engines
//
// A session is one life of a stream: a complete read and the changes after it.
// When it ends, for whatever reason, the loop here decides when and at which
// version the next one begins. Two engines run sessions, with the same promises:
//
//   - [StreamEngine] reads the stream in the goroutine of Run. A source made by
//     [FromREST] decodes it there too, so that an open stream needs that
//     goroutine and HTTP/2's.
//   - [ClientGoEngine] is client-go's own Reflector, of which the back-off, the
//     error reports and the choice of version are not used.
package reflector
