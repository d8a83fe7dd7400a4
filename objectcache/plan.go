// SPDX-License-Identifier: Apache-2.0

package objectcache

// The plan of a WatchStore: how each object that has a watch is kept up to date. Its functions
// depend on their arguments alone. settleLocked and countStreamLocked carry out what they say.
// References, Gets and timers may also begin a read: they call startLocked.

// upkeep is how the state of an object is kept up to date.
type upkeep uint8

const (
	// byStream: a list-and-watch of the object brings its changes.
	byStream upkeep = iota
	// bySharedStream: the stream of its namespace brings them.
	bySharedStream
	// byRead: a read is under way. If it brings the known state again, no stream is needed.
	byRead
	// byNone: there is no stream and no read, until the object has to be read again.
	byNone
)

// isOwn reports whether the object has, or will have, requests of its own.
func (u upkeep) isOwn() bool { return u == byStream || u == byRead }

// nature is what decides whether an object needs a stream.
type nature struct {
	onDemand  bool // the object is read for Gets alone: that of a TTLStore
	known     bool // the state is known
	exists    bool // in the known state
	immutable bool // the known state can never change
	readOnce  bool // all references are read-once
}

func (s *WatchStore[T]) natureOf(e *entry[T]) nature {
	state := e.state()
	return nature{onDemand: s.ttl != nil, known: state.Synced, exists: state.Exists, immutable: e.immutable, readOnce: e.readOnce()}
}

// withoutStream returns the phase of an object that needs no stream, empty if it needs one.
func (n nature) withoutStream() Phase {
	switch {
	case n.onDemand:
		return Cached
	case !n.known:
	case n.exists && n.readOnce:
		return ReadOnce
	case n.immutable:
		return Immutable
	}
	return ""
}

// nextRead returns how the object is read next. It assumes that the read brings the known state
// again: if the object needs a stream then, the read opens one. It expects an object of which
// nothing is known to exist.
func (n nature) nextRead() upkeep {
	if n.onDemand || (n.readOnce || n.immutable) && (n.exists || !n.known) {
		return byRead
	}
	return byStream
}

// progress is how far the present watch of an object has come.
type progress struct {
	nature

	upkeep  upkeep
	phase   Phase // Immutable, ReadOnce or Cached for byNone
	read    bool  // a read has been stored since startLocked
	covered bool  // a read that began after the newest owner was added has brought the state
	behind  bool  // a GET has brought a newer state than the read of the watch
	mayRead bool  // a read for an owner may begin now
	failed  bool  // the last attempt failed, and no Get waits
}

// step is what the plan says of an object with a watch.
type step uint8

const (
	// keepWatch: the watch goes on.
	keepWatch step = iota
	// keepStream: the watch goes on. When the shared stream has come as far, the object moves to it.
	keepStream
	// readAgain: the object is read now, with requests of its own.
	readAgain
	// readForOwner: the object is read for its newest owner now. Such reads are spaced.
	readForOwner
	// endStream: the stream ends. The object needs no read.
	endStream
	// endStreamUntilRead: the stream ends. A timer begins the read for the newest owner.
	endStreamUntilRead
)

// plan returns the next step of a watch.
func (p progress) plan() step {
	phase := p.withoutStream()
	needsStream := phase == ""
	switch {
	case p.onDemand && p.upkeep == byRead && p.read:
		return endStream
	case p.onDemand: // a read that fails is repeated until it succeeds
		return keepWatch
	case p.behind:
		return readAgain
	case p.upkeep == byNone && needsStream: // a reference was added, or an event came while the stream ended
		return readAgain
	case p.upkeep == byNone && phase != p.phase && !p.covered:
		return endStreamUntilRead
	case p.upkeep == byNone && phase != p.phase:
		return endStream
	case p.upkeep == byNone:
		return keepWatch
	case needsStream && p.upkeep == byRead && p.read:
		return readAgain
	case needsStream:
		return keepStream
	case p.upkeep == bySharedStream: // it is read for its owners
		return readAgain
	case p.read && !p.covered && p.mayRead:
		return readForOwner
	case p.read && !p.covered:
		return endStreamUntilRead
	case p.read, p.failed && p.covered:
		// A recheck that failed is not repeated before the next one, unless a Get waits.
		return endStream
	}
	return keepWatch
}

// sharing is what the plan says of a namespace whose objects may share a stream.
type sharing uint8

const (
	// keepSharing: a stream goes on, also if it was about to end. None begins.
	keepSharing sharing = iota
	// share: a stream begins, if there is none.
	share
	// shareNoLonger: the stream ends, unless more objects need one soon.
	shareNoLonger
	// unshare: the stream ends.
	unshare
)

// plan returns the next step of a namespace in which that many objects need a stream. A number
// that goes up and down between half the threshold and the threshold begins and ends no stream.
func (o *SharedOptions) plan(counted int) sharing {
	switch {
	case counted >= o.Threshold:
		return share
	case counted == 0:
		return unshare
	case counted < (o.Threshold+1)/2:
		return shareNoLonger
	}
	return keepSharing
}
