// SPDX-License-Identifier: Apache-2.0

package engine

// The plan of a store: how each object that has a watch is kept up to date. References, Gets and
// timers may also begin a read.

// Upkeep is how the state of an object is kept up to date.
type Upkeep uint8

const (
	// ByStream: a list-and-watch of the object brings its changes.
	ByStream Upkeep = iota
	// ByRead: a read is under way. If it brings the known state again, no stream is needed.
	ByRead
	// ByNone: there is no stream and no read, until the object has to be read again.
	ByNone
)

// Nature is what decides whether an object needs a stream.
type Nature struct {
	OnDemand  bool // the object is read for Gets alone: that of a TTLStore
	Known     bool // the state is known
	Exists    bool // in the known state
	Immutable bool // the known state can never change
}

// Reason is why an object needs no stream.
type Reason uint8

const (
	// NeedsStream: the object needs one.
	NeedsStream Reason = iota
	// OnDemand: it is read for Gets alone.
	OnDemand
	// Immutable: its state can never change.
	Immutable
	// InvalidName: no object can have its name.
	InvalidName
	// NotSelected: the selector excludes its name.
	NotSelected
)

// WithoutStream returns why an object needs no stream, NeedsStream if it needs one.
func (n Nature) WithoutStream() Reason {
	switch {
	case n.OnDemand:
		return OnDemand
	case n.Known && n.Immutable:
		return Immutable
	}
	return NeedsStream
}

// NextRead returns how the object is read next. It assumes that the read brings the known state
// again: if the object needs a stream then, the read opens one.
func (n Nature) NextRead() Upkeep {
	if n.OnDemand || n.Immutable {
		return ByRead
	}
	return ByStream
}

// Progress is how far the present watch of an object has come.
type Progress struct {
	Nature

	Upkeep  Upkeep
	Read    bool // a read has been stored since startLocked
	Covered bool // a read that began after the newest owner was added has brought the state
	Behind  bool // a GET has brought a newer state than the read of the watch
	MayRead bool // a read for an owner may begin now
	Failed  bool // the read is given up: its attempts have failed, and no Get waits
}

// Step is what the plan says of an object with a watch.
type Step uint8

const (
	// KeepWatch: the watch goes on.
	KeepWatch Step = iota
	// KeepStream: the watch goes on. With the first read, the stream brings all changes.
	KeepStream
	// ReadAgain: the object is read now.
	ReadAgain
	// ReadForOwner: the object is read for its newest owner now. Such reads are spaced.
	ReadForOwner
	// EndStream: the stream ends. The object needs no read.
	EndStream
	// EndStreamUntilRead: the stream ends. A timer begins the read for the newest owner.
	EndStreamUntilRead
)

// Plan returns the next step of a watch.
func (p Progress) Plan() Step {
	needsStream := p.WithoutStream() == NeedsStream
	switch {
	case p.OnDemand && p.Upkeep == ByRead && p.Read:
		return EndStream
	case p.OnDemand: // a read that fails is repeated until it succeeds
		return KeepWatch
	case p.Behind:
		return ReadAgain
	case p.Upkeep == ByNone && needsStream: // an event came while the stream ended
		return ReadAgain
	case p.Upkeep == ByNone:
		return KeepWatch
	case needsStream && p.Upkeep == ByRead && p.Read:
		return ReadAgain
	case needsStream:
		return KeepStream
	case p.Read && !p.Covered && p.MayRead:
		return ReadForOwner
	case p.Read && !p.Covered:
		return EndStreamUntilRead
	case p.Read, p.Failed && p.Covered:
		// A recheck that failed is not repeated before the next one, unless a Get waits.
		return EndStream
	}
	return KeepWatch
}
