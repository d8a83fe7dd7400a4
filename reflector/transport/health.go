// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"
)

// health checks that the server is there: it gets a PING when it was silent for
// pingAfter, and has pingTimeout to answer.
type health struct {
	timer     *time.Timer
	lastFrame time.Time
	asked     bool // the answer to a PING is due when timer fires
	pinging   bool // a PING was sent and not acknowledged; there is one at a time
	pings     uint64
}

// resets holds the slots of streams that this client has reset, until the server has
// acknowledged a PING that followed the RST_STREAM. Until then the server may count the
// stream, and a client that opens more than it allows looks like an attack ("rapid
// reset", CVE-2023-44487).
type resets struct {
	held    int // slots that are held
	covered int // of these, the RST_STREAM was sent before the PING that is under way
	after   int // of these, the RST_STREAM was sent after it
}

func (c *conn) startHealth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health.lastFrame = time.Now()
	c.health.timer = time.AfterFunc(c.options.pingAfter, c.checkHealth)
}

func (c *conn) stopHealth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health.timer.Stop()
}

func (c *conn) sawFrame() {
	now := time.Now()
	c.mu.Lock()
	c.health.lastFrame = now
	c.mu.Unlock()
}

// checkHealth runs when the timer fires.
func (c *conn) checkHealth() {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	if c.health.asked {
		c.mu.Unlock()
		c.fail(fmt.Errorf("the server did not answer a PING within %v: %w",
			c.options.pingTimeout, os.ErrDeadlineExceeded))
		return
	}
	if rest := c.options.pingAfter - time.Since(c.health.lastFrame); rest > 0 {
		c.health.timer.Reset(rest)
		c.mu.Unlock()
		return
	}
	c.health.asked = true
	c.health.timer.Reset(c.options.pingTimeout)
	c.mu.Unlock()
	_ = c.write(c.ping)
}

// ping writes a PING if none is under way. The caller holds writing.
func (c *conn) ping() error {
	c.mu.Lock()
	h := &c.health
	send := !h.pinging
	if send {
		h.pinging = true
		h.pings++
		c.resets.covered, c.resets.after = c.resets.after, 0
	}
	data := pingData(h.pings)
	c.mu.Unlock()
	if !send {
		return nil
	}
	return c.framer.WritePing(false, data)
}

// pinged handles the acknowledgement of a PING: slots of the streams that were reset
// before it are free.
func (c *conn) pinged(data [8]byte) error {
	c.mu.Lock()
	if !c.health.pinging || data != pingData(c.health.pings) {
		c.mu.Unlock() // not an answer to a PING of ours
		return nil
	}
	c.health.pinging, c.health.asked = false, false
	c.resets.held -= c.resets.covered
	c.freed = c.freed || c.resets.covered > 0
	c.resets.covered = 0
	again := c.resets.after > 0
	c.unlock()
	if !again {
		return nil
	}
	return c.write(c.ping)
}

func pingData(n uint64) (data [8]byte) {
	binary.BigEndian.PutUint64(data[:], n)
	return data
}
