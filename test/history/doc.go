// SPDX-License-Identifier: Apache-2.0

// Package history records the calls of a cache and their results, and checks them against what was written to the
// server.
//
// A [Recorder] records events in their order. A test reports to it when a write begins and how it ends, when
// references are added and deleted, when a Get begins and what it returns, what a range over Changes yields, what the
// server and the network have seen, and which faults are injected:
//
//	server.Observe(apiserver.Observer{Write: func(w apiserver.Write) { // Deleted for a deletion
//		recorder.Object(w.Resource.String() + "/" + w.Key.String()).Written(history.StateOf(w.Object))
//	}})
//	...
//	get := recorder.Object("secrets/default/tls").BeginGet(ctx)
//	secret, err := secrets.Get(ctx, "default", "tls")
//	get.Return(history.StateOf(secret), err)
//
// For a server that does not report its writes, the test calls [Object.BeginWrite] before each:
//
//	write := recorder.Object("secrets/default/tls").BeginWrite(history.Digest(secret))
//	written, err := client.CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{})
//	if err != nil {
//		... // read the Secret, to know whether it was written: Commit or Fail
//	}
//	write.Commit(history.StateOf(written))
//
// The events go to a [Checker], or to a file as JSON lines, which [Check] and the command check read:
//
//	go run github.com/refwatch/refwatch/test/history/check trace.jsonl
//
// [NewStore] records what a store is asked in production. The writes of other programs are unknown there
// ([Options].IncompleteWrites), and what depends on them is not checked. Nor does the history have requests, streams
// and dials: leave [Limits].Attempt at zero, as the command check does.
//
// # What is checked
//
// The rules of safety (S) say what must never happen, and the rules of liveness (L) what must happen in time. Packages
// model and secrecy check S8, that no output has object data. An epoch ends only when the server is rolled back. The
// restored state then counts as newer than all before it.
//
// These rules hold at any moment, whatever fails meanwhile:
//
//   - S1: each state that a Get returns is that of a write to this object, with its UID, version and content. It breaks
//     too if a caller changes an object that a Get has returned, which all callers share (S9).
//   - S2: no Get returns an older state than a Get that returned before it began: for all goroutines together, across
//     references, and across epochs. No Get returns ErrNotSynced after one has returned a state, while there is a
//     reference: what an owner has had stays available, also while an immutable object is read for a new owner. A Get
//     with demands may return it.
//   - S3: no Get returns an older state than the newest write that was committed before the first reference. The same
//     holds for each new owner of an immutable object as long as it is the newest, unless a fault affects the object,
//     the context of the Get ends, or it is a TryGet soon after the owner has come. A Get that demands the newest state
//     returns none that is older than the newest write that was committed before it began.
//   - S4: a Get returns NotFound only if the object was absent at some time that S2 and S3 allow. Its other errors are
//     ErrNotSynced, ErrNotRegistered and the end of its context.
//   - S5: no Get returns ErrNotRegistered while an owner references the object. While no owner does, each Get returns
//     it, and one that waits ends soon after the last reference was deleted ([Limits].Released).
//   - S7: there are no other requests than list, watch and get of one object. None begins for an object that was never
//     referenced, or later than soon after its last reference was deleted ([Limits].Released), or after a server
//     went on that was stopped: it handles what it was sent before.
//   - S10: Changes yields the states in their order. It yields one again only after a new owner, and yields the
//     newest in the end, to a new owner too.
//   - L3 and L5: few requests come and fail, and few connections are dialed: L3 counts those of one object
//     ([Limits].ObjectRequests and ObjectFailures), and L5 those of all (Failures and Dials, in an outage
//     OutageFailures and OutageDials, and while one of several API servers fails PartialFailures and PartialDials).
//
// These rules do not hold while a fault affects the object, and until it must have recovered:
//
//   - S6: an object has few streams at a time ([Limits].Streams).
//   - L1: a Get returns no state that was replaced long before, and does not wait for long ([Limits].Fresh).
//   - L2: no stream is open soon after the last reference was deleted ([Limits].Released).
//   - L4: there is a request soon after the first reference to an object, whatever others fail at ([Limits].Attempt).
//
// One takes the place of L1 while a fault affects the object of which the recorder says that some verb works beside it
// ([Recorder.VerbFault]), and no other fault does:
//
//   - L6: a Get returns no state that was replaced long before ([Works].Fresh), does not wait for long
//     ([Works].Answered), and does not fail before its context ends if it has demands.
//
// A rule is decided each time that the checker could have found it broken. One that a run never decides says nothing
// about the run: see [Report].Decided.
//
// Each event is checked in constant time. Of each object the last writes are kept. A state that is older than those is
// known to be older than they are, and two such states are not compared.
package history
