// SPDX-License-Identifier: Apache-2.0

package reflector

import "sync"

// calls counts the requests and timers of a session beside the goroutine that runs it.
type calls struct {
	mu    sync.Mutex
	over  bool // no more calls begin
	count int32
	ended chan struct{} // closed when count is 0 again; nil while nobody waits
}

// begin counts a call, unless the session is over. The caller ends it with end.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.count++
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count--; c.count == 0 && c.ended != nil {
		close(c.ended)
	}
}

// finish lets no more calls begin. It returns nil if there are none, or else a channel
// that is closed when all have ended. It is called once.
func (c *calls) finish() (ended <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.count > 0 {
		c.ended = make(chan struct{})
	}
	return c.ended
}
