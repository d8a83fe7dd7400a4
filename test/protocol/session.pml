/* SPDX-License-Identifier: Apache-2.0
 *
 * How a reflector keeps one object equal to the server, across cuts, late events, compactions and a rollback of the
 * server, and what a new owner of an immutable object gets. check.sh lets SPIN search all interleavings.
 *
 *   WATCHLIST  one request brings the state and the stream; else they come from a list and a watch
 *   HIDDEN     writes may hide a rollback between list and watch before it is noticed (docs/promises.md, "What is not
 *              promised"); else they come later
 *
 * What each part is in the code:
 *
 *   Server              kube-apiserver on etcd; test/apiserver has the same faults
 *   hold                cache.Order: Read after a read, Event after an event
 *   seen, consistent    the fields version and consistent of reflector.progress
 *   owners, readFor     the fields readFor and lastReadFor of reflector.progress; in objectcache, newestOwner of an
 *                       entry and readFor of its objectWatch
 *   Reflector           a reflector.Reflector; from one goto to the next, a reflector.session
 *   Owner               WatchStore.newOwnerLocked, and servable, by which a Get decides
 */

#define WRITES 3
#define FAULTS 2
#define EPOCH  16 /* positions of one epoch */

/* The server. Content identifies a write. A position orders all states, across epochs: no client sees it. */
byte version = 1, objectVersion = 1, content = 1, position = 1;
byte floor = 0;    /* older versions are compacted */
byte epoch = 0, writes = 0, faults = 0, backupVersion = 0, backupObject, backupContent;
byte previousVersion = 1, previousContent = 1, previousPosition = 1; /* before the newest write */
bool restored = false;

/* The stream. */
bool open = false;
byte readEpoch;    /* of the state before it */
byte from;         /* events after this version are sent */
chan events = [WRITES + FAULTS] of { byte, byte, byte }; /* version, content, position */

/* The store, and what the reflector remembers. */
bool synced = false;
byte heldContent = 0, heldPosition = 0;
byte seen = 0;     /* the highest version of this epoch, as far as it is known */
byte owners = 0, readFor = 0, ownerPosition = 0;

#if defined(HIDDEN) || defined(WATCHLIST)
#define HIDES  false
#else
#define HIDES  (readEpoch != epoch) /* a write would hide the rollback */
#endif
#define SILENT (open && version < from && empty(events))

inline hold(c, p) {
	assert(p >= heldPosition); /* S2: never back, across epochs too */
	heldContent = c;
	heldPosition = p
}

inline flush() {
	do
	:: len(events) > 0 -> events?_, _, _
	:: else -> break
	od
}

active proctype Server() {
	do
	:: atomic { writes < WRITES && !HIDES ->
		writes++;
		previousVersion = objectVersion; previousContent = content; previousPosition = position;
		version++;
		objectVersion = version; content = writes + 1; position = epoch * EPOCH + version;
		if
		:: open && version > from -> events!version, content, position
		:: else
		fi }
	:: atomic { backupVersion == 0 ->
		backupVersion = version; backupObject = objectVersion; backupContent = content }
	:: atomic { backupVersion > 0 && !restored ->
		restored = true; epoch++;
		version = backupVersion; objectVersion = backupObject; content = backupContent;
		position = epoch * EPOCH + version; floor = version;
		previousVersion = objectVersion; previousContent = content; previousPosition = position;
		open = false }
	:: atomic { faults < FAULTS && open -> faults++; open = false }
	:: atomic { faults < FAULTS && open && nfull(events) -> /* an event that is late */
		faults++;
		events!previousVersion, previousContent, previousPosition }
	:: atomic { faults < FAULTS && floor < version -> faults++; floor = version }
	:: break
	od
}

active proctype Reflector() {
	bool consistent = false, found;
	byte asked, askedFor, v, c, p;

read: /* readState, readList */
	atomic { /* progress.ask */
		askedFor = owners;
		consistent = consistent || owners > readFor;
		asked = (consistent -> 0 : seen)
	}
	/* The request reaches the server. */
	atomic {
		found = asked <= version;
		if
		:: !found -> consistent = true /* 504: progress.failed, for the next read */
		:: else ->
			v = version; c = content; p = position; readEpoch = epoch;
#ifdef WATCHLIST
			flush(); from = version; open = true
#endif
		fi
	}
	if
	:: !found -> goto read
	:: else
	fi;
	atomic { /* session.checkRead, session.replace, progress.stateStored */
		if
		:: v < seen -> assert(consistent) /* the server was rolled back: newEpoch, serverRolledBack */
		:: else
		fi;
		hold(c, p);
		seen = v; synced = true;
		if
		:: consistent -> readFor = askedFor
		:: else
		fi;
		consistent = false
	}
#ifndef WATCHLIST
	atomic { /* session.open: the watch after a list */
		if
		:: v < floor && v <= version -> consistent = true; goto read /* 410: progress.failed */
		:: else ->
			flush(); from = v; open = true;
			if
			:: objectVersion > from -> events!objectVersion, content, position
			:: else
			fi
		fi
	}
#endif

end_stream: /* nothing may come any more */
	do
	:: atomic { events?v, c, p -> /* session.apply, cache.Order.Event */
		if
		:: v > seen -> hold(c, p); seen = v
		:: else /* dropped */
		fi }
	:: atomic { open && empty(events) && version > seen && version > from -> seen = version } /* a bookmark */
	:: atomic { !open -> flush(); goto read } /* session.conclude, Reflector.next */
	:: atomic { SILENT -> open = false; consistent = true; goto read } /* session.verify */
	:: atomic { owners > readFor -> open = false; flush(); goto read } /* newOwnerLocked, settleLocked */
	od
}

/* A new owner of an immutable object gets nothing older than what there was when it came. */
active proctype Owner() {
	atomic { owners++; ownerPosition = position };
	atomic { synced && readFor >= owners -> assert(heldPosition >= ownerPosition) }
}

/* When nothing can happen any more, the store holds what the server has. */
active proctype Quiet() {
	timeout -> assert(heldContent == content)
}
