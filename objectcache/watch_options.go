// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

// WatchOptions changes how a [WatchStore] works. The zero value is valid.
type WatchOptions struct {
	// IdleTimeout ends the stream of an object that no Get asks for, and drops the
	// object from memory. The next Get opens a new stream and waits. This happens
	// between one and two IdleTimeouts after the last use: a new owner, the first
	// sync, or a Get. No object is idle while a caller ranges over Changes.
	// Default, also for a negative value: never.
	IdleTimeout time.Duration
	// RefusalGrace is how long a Get waits while the server answers every
	// attempt with 401, 403 or another refusal. The Node authorizer needs a
	// moment to see a pod that was just bound. Default: 1 s. A negative value
	// waits for as long as the context allows.
	RefusalGrace time.Duration
	// MaxStaleness bounds the time since the server last sent a read, an event or
	// a bookmark of an object. If the state is older, Get asks for a new read and
	// waits: see [ErrStale]. kube-apiserver sends a bookmark about once a minute,
	// so with less than two minutes Get takes quiet streams for stale and reopens
	// them. Immutable objects are never stale. Default, also for a negative value: no bound.
	MaxStaleness time.Duration
	// ImmutableRecheck is the time after which an immutable object is read again
	// although it has no new owner: it may have been deleted and created again,
	// and no stream reports that. Each time a random duration of up to as much is
	// added. During the read, and if it fails, Get returns the previous state.
	// Default: 10 minutes. A negative value never reads the object again.
	ImmutableRecheck time.Duration
	// AcquireOnGet makes Get and TryGet of an object that no owner references take a
	// reference of their own, [LeaseOwner], instead of returning [ErrNotRegistered]. A
	// Get may then come before the registration of its owner. The reference is
	// deleted between one and two AcquireOnGets after the last use. Default, also for a
	// negative value: never.
	AcquireOnGet time.Duration
	// Gate bounds how many streams are being opened at a time. Stores that reach
	// one server as one user should share one. Default: a Gate of its own.
	Gate *Gate
	// Shared makes the objects of a namespace share one stream of that namespace.
	// Default: each object has a stream of its own, which the least permission allows.
	Shared SharedOptions
	// WatchImmutable keeps the stream of an object whose field "immutable" is
	// true. Its owners then learn at once when it is deleted and created again.
	// Default: the stream of such an object ends once it has synced, because its
	// data cannot change.
	WatchImmutable bool
	// BlockingStreams sends watches through client-go's transport, and reads each stream
	// with two goroutines: one of net/http's HTTP/2 client, and one that blocks in Read.
	// It is the way back if the HTTP/2 client of package reflector/transport, or a server
	// under it, misbehaves. The guarantees are the same, but the number of connections is
	// not bounded: net/http dials one for each request that finds all of them full.
	//
	// Default: an open, quiet stream is parked, which means that it has no goroutine. That
	// HTTP/2 client has one goroutine for each connection, which carries as many streams
	// as the server allows, and a few goroutines of the Gate decode what arrives. It needs
	// a client of a config that [resource.ConfigFor] returned, and a server that speaks
	// HTTP/2 over TLS. A goroutine reads each stream that cannot be parked. Such are the
	// streams of [resource.FromSource], and of a config whose WrapTransport replaces the
	// body of the response. [Status].Parked says which streams are parked, and NotParked in
	// the status of the [Gate] why others are not; [Stats] has the Gate of a store.
	//
	// The feature gate is featuregates.ParkedStreams, which is beta.
	BlockingStreams bool
}

const (
	defaultRefusalGrace     = time.Second
	defaultImmutableRecheck = 10 * time.Minute
)

// The bits of entry.used. Each timer clears its own.
const (
	usedIdle  uint32 = 1 << iota // for IdleTimeout
	usedLease                    // for AcquireOnGet
)

// uses returns the bits that the timers of a store with these options read.
func (o *WatchOptions) uses() (bits uint32) {
	if o.IdleTimeout > 0 {
		bits |= usedIdle
	}
	if o.AcquireOnGet > 0 {
		bits |= usedLease
	}
	return bits
}

// setDefaults replaces each value that stands for another one.
func (o *WatchOptions) setDefaults() {
	if o.RefusalGrace == 0 {
		o.RefusalGrace = defaultRefusalGrace
	}
	if o.ImmutableRecheck == 0 {
		o.ImmutableRecheck = defaultImmutableRecheck
	}
	if o.Shared.Threshold == 0 {
		o.Shared.Threshold = defaultSharedThreshold
	}
	for _, d := range []*time.Duration{&o.IdleTimeout, &o.MaxStaleness, &o.AcquireOnGet} {
		*d = max(0, *d)
	}
	if o.Gate == nil {
		o.Gate = NewGate(GateOptions{})
	}
}
