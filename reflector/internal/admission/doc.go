// SPDX-License-Identifier: Apache-2.0

// Package admission decides which of many members may send a request to one
// server now. A member is one object that is to be listed and watched; an attempt
// is one request for its state.
//
// # Usage
//
// A [Controller] is one client's. Each member joins it ([Controller.Join]), then
// alternates [Member.Acquire], which waits, with [Member.Release], which reports
// the [Outcome] of the attempt. A member whose attempt has synced reports the end
// of its stream ([Member.Ended]) before it acquires again.
//
// # Is it me, my resource, or the server?
//
// This package alone answers that, by outcomes:
//
//   - A failure is the member's own until other members prove more. The member
//     pauses (0.1 s, doubling to 15 s, or the server's Retry-After up to a minute)
//     and moves to the lane of failing members.
//   - Failures (5xx, or no answer in time) are the resource's when several
//     members of it that synced before fail and none succeeds in between. So is
//     a 429, of members that never synced as well.
//   - The same of requests that reach no server is an outage of the server. Before
//     any answer has come, members that never synced count as well.
//   - A 401 is everybody's.
//
// A resource or a server in trouble is probed: one attempt at a time, the first
// at once, then 0.25 to 5 s apart (a resource: 0.25 to 2 s; after 429s 0.1 to 5 s).
// An attempt that succeeds ends the trouble. Members that failed while nobody
// succeeded are then forgiven: their pauses end, once.
//
// # What is guaranteed
//
//   - A healthy member (new, or synced at its last attempt) does not wait for
//     members that have failed, and waits for others only until they have made one
//     attempt. The window of a resource is 4 attempts at first; it grows by one with
//     each success, up to the limit of the controller, and is 1 again after a 429. An
//     attempt that takes longer than four times what others took (at least 0.25 s, at
//     most 5 s; 0.5 s as long as nothing is known) leaves the window.
//   - Members that a caller waits for go first, by weight: half of the attempts are
//     theirs, a quarter each is for members that were synced before and for new
//     ones. The weight holds for one attempt.
//   - A new member of a resource that fails (5xx) makes its one attempt all the same:
//     in line with other new ones, 20 ms apart. In a resource that is throttled, or
//     hangs, and in an outage, the newest new member is probed within 2 s, within
//     0.3 s if a caller waits; the others in turn, as probes are.
//   - Failing members share 8 attempts under way and 20 attempts a second, and 160
//     more for those that a caller waits for. An attempt of theirs that succeeds pays for
//     three more. Each of them makes less than one attempt a second, after the
//     first few.
//   - After four failures in a row of healthy members, these are admitted 20 ms
//     apart or more.
//   - A server that is away, and a dead token, see one probe at a time, and three a
//     second at most while new members come that a caller waits for. A probe that
//     hangs does not stop the next one.
//
// A Controller holds no goroutine; it has one timer.
package admission
