// SPDX-License-Identifier: Apache-2.0

// Package admission decides which of many members may send a request to one
// server now. A member is one object that is to be listed and watched. An attempt
// is one request for its state.
//
// # Usage
//
// Each client has one [Controller]. A member joins it ([Controller.Join]). For each
// attempt it calls [Member.Acquire], which waits, and then [Member.Release], which
// reports the [Outcome]. A member whose attempt has synced reports the end of its
// stream ([Member.Ended]) before the next Acquire.
//
// # Is it the member, the resource, or the server?
//
// This package decides that, by outcomes:
//
//   - A failure concerns its member alone, unless other members fail too. The
//     member pauses (0.1 s, doubling to 15 s, or the server's Retry-After, up to a
//     minute) and moves to the lane of failing members.
//   - Failures (5xx, or no answer in time) confirm an outage of the resource if
//     several of its members that synced before fail and none succeeds in between.
//     So do 429s, also of members that have never synced.
//   - Failures to reach the server confirm an outage of the server in the same way.
//     Before the server's first answer, members that have never synced count too, three
//     are enough, and those that fail together count once: one dial may fail for many.
//   - A 401 is an outage of the resource at once. If another resource gets a 401, too,
//     with no success since, or if there is no other, it is one of the server.
//   - Two failures in a row of the only member, to reach the server or to get an answer
//     in time, are an outage.
//   - The failure of a member that came alone says little: see the reserve below.
//
// In an outage, members make one attempt at a time: a probe. The first begins at once,
// the next ones 0.25 to 5 s apart (for a resource 0.25 to 2 s; after 429s 0.1 to
// 5 s). A success ends the outage. It also ends the pauses of the members that
// failed since the last success, once each, but not a Retry-After. An outage of a
// resource also ends if 16 probes in a row are refused, and one by attempts without
// an answer in time if any attempt is refused after it was late.
//
// # Guarantees
//
//   - A healthy member (new, or synced at its last attempt) does not wait for
//     failing members. It waits for other healthy members only until each has made
//     one attempt.
//   - Each resource has a reserve. A healthy member that comes one by one (up to 20 a
//     second, 16 at a time) makes its attempt within 0.3 s, also in an outage
//     or after a 429. Its failure delays no other. After 128 such attempts one of any
//     member must succeed before more begin.
//   - The window of a resource is 16 attempts at first. Up to 400 attempts a second
//     it grows fourfold in a round trip, then it doubles, up to the controller's limit.
//     It shrinks to 1 after a 429. Above 32 it grows only while the latency is less than
//     1.5 times its minimum, and shrinks while it is more than twice that. Above half of
//     the size at which it shrank it grows by one in each round trip, or in each second
//     where a round trip takes longer.
//   - The latency is the time from the request until the first part of the answer. An
//     attempt leaves the window after four times the usual latency, 0.25 s at least, but
//     not while parts of its answer arrive. The upper bound is 5 s, or four round trips,
//     or twice the usual latency.
//   - The round trip is the least time until an answer or a refusal in the last minutes,
//     8 s at most. Before the first one, an attempt leaves the window after 5 s, and says
//     nothing of the server for 30 s.
//   - If other resources hold all places, a resource has up to 8 more.
//   - Half of the attempts are for members that a caller waits for, a quarter each
//     for members that synced before and for members that have never synced.
//     [Member.Expedite] holds for one attempt.
//   - In an outage of a resource by 5xx, each new member still makes one attempt,
//     20 ms after the one before. In an outage by 429, by hung attempts or of the
//     server, the newest new member probes within 2 s, or within 0.3 s if a caller
//     waits. The others wait for their probe.
//   - Failing members share 20 attempts under way and 20 attempts a second, and 160
//     more for those that a caller waits for. A successful attempt of theirs adds
//     three more. Each failing member makes less than one attempt a second, after
//     the first few.
//   - A member that takes the place of one which has left ([Member.Past], [Member.Continue]) is no
//     faster than one that stays. After three in a row that left within 10 s of their success, the
//     next ones pause (0.1 s, doubling to 1 s) and share the 20 attempts a second of failing members.
//   - After four failures of healthy members in a row, their attempts begin at
//     least 20 ms apart.
//   - An outage of the server, or an invalid token, causes one probe at a time. New
//     members that a caller waits for raise the rate to three a second at most. A
//     probe that hangs does not delay the next one.
//
// A Controller has no goroutine of its own, and one timer.
package admission
