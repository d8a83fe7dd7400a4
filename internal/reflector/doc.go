// SPDX-License-Identifier: Apache-2.0

// Package reflector keeps a store equal to one selection on an API server, for the stores of package
// objectcache and for package reflector of the root.
//
// A [Reflector] lists and watches a [listwatch.Source] and writes what it reads to a
// [Store]. A [Gate] decides when it may send a request.
//
// Where the server refuses WatchLists as such, the reflector lists and then watches, for an hour. It
// does so for a minute, and for twice as long each time, where WatchLists end before the state, or
// where watches fail and lists work. The gate remembers this by resource. Where WatchLists have worked
// before, it takes several that break; a reflector then lists after its own second one.
//
// A reflector follows its selection from Run on. It does so until [Reflector.Read], which reads once
// and keeps no stream open, or [Reflector.Pause], after which it sends nothing. [Reflector.Follow]
// opens a stream again.
//
// # Goroutines
//
// A reflector that waits for admission has no goroutine. With Options.ResyncPeriod one goroutine calls
// the store's Resync, never while another call writes the store. A [Gate] has timers, and goroutines
// only while a parked stream has something, and one of them for 5 s after.
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
