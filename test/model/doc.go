// SPDX-License-Identifier: Apache-2.0

// Package model looks for defects of the library by itself: it runs random schedules of actions and faults against
// managers of several kinds that share a Gate, in virtual time, over the real protocol, and checks everything that the
// managers return.
//
// # Schedules
//
// A [Schedule] is a list of steps, one a line, that [World] runs one after the other:
//
//	with idle-timeout 60000
//	put 0 0
//	register 0 0
//	inject kind-throttled 0
//	sleep 2000
//	get 0 5000
//	heal 0
//
// Every step is valid at any time, so that a schedule without some of its steps is a schedule too. One that fails is
// printed as such a list, and then again without the steps that it does not need to break the same rule. To run it
// again, write it into a file, whose path is absolute or begins at the root of the repository:
//
//	go test -run 'TestReplay$' ./test/model -model.replay=/tmp/schedule
//
// Passed to [Replay], it is a regression test.
//
// # Steps
//
// Arguments are numbers. In this list O is an object, P a pod, K a kind, T a time in milliseconds, and B is 1 for yes.
// An argument that is missing is 0.
//
//	put O B              create or update O; if B, as an immutable object, where its kind has such
//	delete O             delete O
//	delete-namespace N   delete namespace N (0 or 1) with all its objects, and create it again
//	backup               make a backup, which the fault rollback restores
//	register P O...      register pod P, which references the objects, in place of what it referenced before
//	unregister P         unregister pod P
//	replace P B          replace P by a pod with the same name and another UID; if B, register that one first
//	reference N O        add O to what pod 2*N, or in namespace ns-1 pod 2*N+1, references
//	release O            remove O from what all pods reference
//	get O T              call Get, with that time-out, in a goroutine
//	try O                call TryGet
//	live O T             call GetWithOptions, with Live
//	newest O T           call GetWithOptions, with NotOlderThan: the version that the server has
//	not-staler O T T     call GetWithOptions, with the second time as MaxStaleness
//	put-and-get O T B    put O, and call GetWithOptions with NotOlderThan; if B, with Live too
//	loop O T             call Get every 100 ms, for that time or 20 s
//	follow, unfollow N   begin a range over Changes; end the one with number N
//	block-follower K T   begin a range over the Changes of kind K, whose first iteration lasts for that time
//	expedite K           if no fault is there, check that a Get ends the long pauses of a new object of kind K
//	inject FAULT         inject a fault that affects all objects; [Catalog] returns them, and the flag
//	                     -model.faults=help of TestMatrix lists their names
//	inject FAULT K       inject one that affects all objects of kind K
//	inject FAULT O...    inject one that affects these objects
//	inject FAULT N       inject one of API server N (0 or 1)
//	heal N               end the fault with number N, of those that last
//	sleep T              let time pass
//	check                if no fault has been there for long enough, check that all objects are fresh
//	probe K              if no fault affects kind K, check that a new object of it is served at once
//	quick N              do not wait between the next N steps until all goroutines are idle
//	restart              stop each subject that can be restarted, and start it again
//	populate             create nearly all objects, and register pods that reference all
//
// There are objects 0 to 7, unless a step "with objects N" says how many. O modulo 3 is the kind: 0 is a Secret, 1 a
// ConfigMap, 2 a widget, which is a custom resource. Objects 3, 4 and 5 are in namespace ns-1, the others in ns-0. Pods
// with an even number are in ns-0, the others in ns-1. A pod references objects of its own namespace only, so register
// counts just those: "register 1 2" references object 5. After the last number follows 0 again. At most
// three faults last at a time: a further one is not injected.
//
// Steps that begin with "with" are applied before all others. These are options of the managers: idle-timeout T,
// max-staleness T, watch-immutable, blocking, rest-widgets (a REST client reads the widgets),
// ttl T (the stores are TTLStores), direct (they are DirectStores), transform (a function gets each object before it is
// stored).
// These are options of the server: streams N (for each connection), no-watchlist, latency T (each response takes as
// long), busy T (another object is written as often). Half of the first 30 objects are large: of 20 KiB, or with size N
// of so many.
//
// # Checks
//
// Package history checks what Gets and ranges over Changes return against the writes: S1 to S4, S10, L1 and L6 of its
// documentation, and the requests of the managers: S6, S7, L3 to L5. An object that a Get has returned does not change
// later, and Gets of one state return the same object (S9). This package compares the managers with a
// sequential model: their keys are those that owners reference (S5), the phase of an object is what a TryGet returns
// at the same moment (S11), and a step that changes the references of an
// object causes no request for it if it had a stream and keeps an owner (L3). At the end of a schedule all faults are
// healed. After the time that they promise all objects must be fresh and stay so, a new owner of each must get the
// newest state, also of an immutable object, and without owners no stream, request, connection or goroutine may be
// left (L2).
//
// # Faults
//
// There are two API servers behind one address, which the managers dial in turn. Both have the same objects, and each
// has a watch cache of its own. The [Catalog] has the faults of one server, of both, and of the network. TestMatrix
// runs each by itself, and all pairs, with a given number of references: see [DrawMatrix]. A failure of "make matrix"
// names the faults and the seed; to run only these:
//
//	go test -run 'TestMatrix$' ./test/model -model.faults=rollback,black-hole -model.seed=4871
//
// An unknown name, such as -model.faults=help, is an error that lists the names.
//
// Faults of verbs make a WatchList, a watch after a list, a list or a GET fail, or all beside one that reads:
// only-gets, only-lists and only-watches. Each is in the catalog in each way, such as list-500 and only-gets-hang, and
// lasts while the other verbs work. Then the rules of time go on, with the bounds of docs/promises.md: L6. They pause
// for a kind whose subject cannot use what works: a dynamic client has no GETs, and a TTLStore and a DirectStore have
// nothing else. They also pause beside other faults, for ten minutes after these, and for an hour if only GETs work,
// because what other faults have taught may hold as long; and for [Options].NewSubjects. TestVerbs lets each last for
// long. With -model.runs, as in "make matrix", it also walks the [Triples], in which three verbs fail, each in its own
// way.
//
// # Subjects
//
// [Options].NewSubjects makes the managers under test: those of this library by default. Module test/kubelet runs the
// same schedules on kubelet's own managers.
package model
