// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// consistentReads remembers the newest consistent read of each resource, for all reflectors
// of a gate.
//
// A consistent read costs more than any other: kube-apiserver asks etcd for its revision, and
// answers when the watch cache of the resource has reached it. If something else was
// written meanwhile, that takes up to 100 ms (KEP-2340). But a state that is not older than a
// consistent read is new enough for all who needed one before that read began, and the
// server has it in memory. A reflector that accepts an older state needed one before the newest
// read began: see [Reflector.AcceptAge].
//
// The clock orders what matters here: when a state is needed, and when a read begins. It is
// no time of day, because both may happen in the same moment.
type consistentReads struct {
	clock atomic.Uint64

	mu     sync.Mutex
	newest map[string]consistentRead
}

// consistentRead is a consistent read that the server has answered. The zero value is none.
type consistentRead struct {
	began   uint64        // on the clock
	sent    moment.Moment // just before its request was sent, which is no later than the state
	version string        // of the state, which a watch cache of the server has reached
	after   uint64        // of so many restores of etcd
}

// isWithin reports whether the read began at most so long ago. The time for which the machine was
// suspended counts.
func (r *consistentRead) isWithin(age time.Duration) bool {
	return r.began > 0 && time.Since(r.sent.Time()) <= age
}

// now returns a number above all that it has returned before.
func (c *consistentReads) now() uint64 { return c.clock.Add(1) }

// of returns the newest read of a resource, zero if there is none. Reflectors without a
// resource may read anything, and versions of two resources cannot be compared.
func (c *consistentReads) of(resource string) consistentRead {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest[resource]
}

// add adds a read of a resource, which may be zero.
func (c *consistentReads) add(resource string, read consistentRead) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if resource == "" || read.began <= c.newest[resource].began {
		return
	}
	if c.newest == nil {
		c.newest = map[string]consistentRead{}
	}
	c.newest[resource] = read
}

// remove removes the read of a resource that began then, because a server does not have its
// version: the server lags, or was rolled back.
func (c *consistentReads) remove(resource string, began uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest[resource].began == began {
		delete(c.newest, resource)
	}
}
