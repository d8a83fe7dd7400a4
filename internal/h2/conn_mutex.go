// SPDX-License-Identifier: Apache-2.0

package h2

import "sync"

// connMutex is the mutex of a connection. It has no Unlock that reports nothing.
type connMutex struct {
	mutex sync.Mutex
	conn  *conn
}

func (m *connMutex) Lock() { m.mutex.Lock() }

// Unlock unlocks the mutex and reports how the slots have changed since Lock. The pool calls methods of the connection
// with its own lock held, which events take: these methods take a slot at most, and that is not reported. The end of a
// stream that this client has reset is no change: its slot stays taken. A connection that takes no streams is closed
// when it has none.
func (m *connMutex) Unlock() {
	c := m.conn
	before, now := c.seen, c.slotsLocked()
	c.seen = now
	if now.lost && len(c.streams)+c.reserved == 0 && c.err == nil {
		c.err = errConnFinished
		c.background.Go(func() { _ = c.net.Close() }) // TLS writes an alert before
	}
	events := c.events
	m.mutex.Unlock()

	switch {
	case events == nil:
	case now.lost:
		if !before.lost {
			events.gone(c)
		}
	default:
		if now.free() > max(before.free(), 0) || now.settled && !before.settled {
			events.slotFreed(c)
		}
		if now.used == 0 && before.used > 0 {
			events.idle(c)
		}
	}
}
