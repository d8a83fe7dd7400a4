// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps a store equal to one selection on an API server.
//
// A [Source] says where list and watch come from, a [Reflector] keeps a store
// equal to what they bring. Any client-go store will do;
// [github.com/refwatch/refwatch/cache.Slot] is the one for a single object.
//
// # What is promised
//
//   - The first read is a consistent one (resourceVersion ""). So is the one
//     after an expired version (410), and after two "too large" ones in a row.
//   - The state comes first, then the changes, on one stream where the server
//     offers it (WatchList, KEP-3157). A server that refuses WatchList, or never
//     ends the initial events, is remembered: list followed by watch takes over.
//   - Every later stream starts with the state again, from the last version
//     seen. A plain watch at a version from the future is silent for ever, as
//     after an etcd restore; a read at it is refused and so noticed.
//   - A consistent read below the highest version seen means that the server
//     was rolled back. A store that implements [EpochStore] is told.
//   - An object that the store's [Guard] refuses never reaches the store; the
//     stream starts over.
//   - Failures are classed once ([Classify]) and kept with their cause
//     ([Status]). Pauses between attempts are jittered and at most 15 s long;
//     a server's Retry-After may ask for more. [Reflector.Retry] cuts one short.
//   - Nothing is polled and no time-out is hidden. Each stream asks the server
//     to end it after 30 to 60 minutes, jittered.
//   - No object data reaches a log: the logger that client-go gets is capped
//     below the level at which it prints bodies (8).
//
// # Goroutines
//
// [Reflector.Run] blocks. All that it starts has ended when it returns, but for
// client-go's pager, which may need an instant more to notice; it makes no
// request any more.
//
// # Engines
//
// client-go's own Reflector runs one session at a time; when it ends, for
// whatever reason, the loop here decides when and at which version the next one
// begins. client-go's back-off, its error reports and its choice of version are
// not used.
package reflector
