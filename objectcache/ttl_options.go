// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TTLOptions selects and configures a [TTLStore]. The zero value is valid.
type TTLOptions struct {
	// TTL is for how long an object is served without another read, counted from the
	// beginning of the read. The first Get after it reads the object again. Default: 1
	// minute, as in kubelet. A negative value serves it until there is a new owner. If TTLFunc
	// returns 0, each Get reads; Gets that wait at the same time share a read.
	TTL time.Duration
	// TTLFunc returns the TTL for the object that was just read, or false for the default
	// above. A negative value is as that of TTL. It is called once for each read, so a new TTL
	// holds from the next read on. [TTLFromNode] makes one. Default: nil.
	TTLFunc func() (ttl time.Duration, ok bool)
	// NotFoundTTL is for how long Get returns NotFound without another read; the smaller
	// one of TTL and NotFoundTTL counts. A program that waits for an object sees it that
	// late, and sends one request in that time, however often it asks. Default: 1 s. With
	// a negative value, TTL counts.
	NotFoundTTL time.Duration
	// MaxStaleness bounds the age of an object that is served although it cannot be read
	// again. If it is older, Get waits for a read, and fails with [ErrStale] and the
	// cause. Immutable objects are never stale. Default, also for a negative value: no bound.
	MaxStaleness time.Duration
	// RefusalGrace is how long a Get waits while the server answers every attempt with
	// 401, 403 or another refusal, and no object is held. The Node authorizer needs a
	// moment to see a pod that was just bound. Default: 1 s. A negative value waits for
	// as long as the context allows.
	RefusalGrace time.Duration
	// ImmutableRecheck is the TTL of an immutable object, if it is longer than TTL: its
	// data cannot change, but it may have been deleted and created again. Each time a
	// random duration of up to as much is added. Default: 10 minutes. With a negative
	// value, such an object is read for a new owner only.
	ImmutableRecheck time.Duration
	// Gate bounds how many reads are under way at a time. Stores that reach one server as
	// one user should share one. Default: a Gate of its own.
	Gate *Gate
}

const (
	defaultTTL         = time.Minute // kubelet's
	defaultNotFoundTTL = time.Second
)

// TTLFromNode returns a function for [TTLOptions].TTLFunc: the TTL that the annotation
// node.alpha.kubernetes.io/ttl of a Node demands, in seconds. kube-controller-manager
// sets it to 0 in a cluster of 100 nodes, and to 300 in one of 2,000. kubelet's TTL
// manager does the same. getNode must return a Node from memory, such as that of a
// lister. If it fails, or the annotation is missing or no number, the default counts.
func TTLFromNode(getNode func() (*corev1.Node, error)) func() (time.Duration, bool) {
	return func() (time.Duration, bool) {
		node, err := getNode()
		if err != nil || node == nil {
			return 0, false
		}
		seconds, err := strconv.ParseUint(node.Annotations[corev1.ObjectTTLAnnotationKey], 10, 31)
		return time.Duration(seconds) * time.Second, err == nil
	}
}

// setDefaults replaces each zero value that stands for another one.
func (o *TTLOptions) setDefaults() {
	o.TTL = forever(cmp.Or(o.TTL, defaultTTL))
	o.NotFoundTTL = forever(cmp.Or(o.NotFoundTTL, defaultNotFoundTTL))
	o.MaxStaleness = max(0, o.MaxStaleness)
	o.RefusalGrace = cmp.Or(o.RefusalGrace, defaultRefusalGrace)
	o.ImmutableRecheck = cmp.Or(o.ImmutableRecheck, defaultImmutableRecheck)
	if o.Gate == nil {
		o.Gate = NewGate(GateOptions{})
	}
}

// forever returns a duration of the options, of which a negative one has no end.
func forever(d time.Duration) time.Duration {
	if d < 0 {
		return math.MaxInt64
	}
	return d
}
