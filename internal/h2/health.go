// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"
	"os"
	"time"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

var errNoPingAnswer = redact.New("the server did not answer a PING")

// health checks that the server is there: it gets a PING when it was silent for
// pingAfter, and has pingTimeout to answer. The PINGs that follow an RST_STREAM are
// checked as well.
type health struct {
	silence   *time.Timer // fires when the server may have been silent for pingAfter
	lastFrame time.Time
	asked     bool // it was, and the answer to a PING is due when answer fires

	pings   uint64      // how many PINGs were sent
	pinging bool        // the last one was not acknowledged; there is one at a time
	answer  *time.Timer // fires at due, and runs while pinging
	due     time.Time
	overdue bool // a PING was not acknowledged in time, though the server was not silent
}

// resets are the streams that this client has reset. They hold their slots until the
// server has acknowledged a PING that followed the RST_STREAM: until then the server may
// count them, and a client that opens more than it allows looks like an attack ("rapid
// reset", CVE-2023-44487).
type resets struct {
	covered int    // slots that the PING under way will free
	after   int    // slots of streams that were reset after it was sent
	last    uint32 // the highest id of all
}

func (c *conn) startHealth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.health
	h.lastFrame = time.Now()
	h.silence = time.AfterFunc(c.options.pingAfter, c.checkSilence)
	h.answer = time.AfterFunc(c.options.pingTimeout, c.checkAnswer)
	h.answer.Stop()
}

func (c *conn) stopHealth() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.health.silence.Stop()
	c.health.answer.Stop()
}

func (c *conn) sawFrame() {
	now := time.Now()
	c.mu.Lock()
	c.health.lastFrame = now
	c.mu.Unlock()
}

// probe sends a PING. Without an answer in time the connection takes no new streams.
func (c *conn) probe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.pingLocked()
	}
}

// checkSilence runs when the timer silence fires.
func (c *conn) checkSilence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &c.health
	if c.err != nil || h.asked {
		return
	}
	if rest := c.options.pingAfter - time.Since(h.lastFrame); rest > 0 {
		h.silence.Reset(rest)
		return
	}
	h.asked = true
	c.pingLocked()
	c.awaitAnswerLocked() // also if a PING was under way
}

// checkAnswer runs when the timer answer fires. A server that was silent before is lost.
// One that sends frames, but does not acknowledge a PING, gets no new streams: the slots
// of the streams that were reset never become free.
func (c *conn) checkAnswer() {
	c.mu.Lock()
	h := &c.health
	if c.err != nil || !h.pinging || time.Now().Before(h.due) {
		c.mu.Unlock()
		return
	}
	if h.asked {
		c.mu.Unlock()
		c.fail(redact.Errorf("%w within %v: %w", errNoPingAnswer, c.options.pingTimeout, os.ErrDeadlineExceeded))
		return
	}
	h.overdue = true
	c.mu.Unlock()
}

func (c *conn) awaitAnswerLocked() {
	c.health.due = time.Now().Add(c.options.pingTimeout)
	c.health.answer.Reset(c.options.pingTimeout)
}

// pingLocked sends a PING if none is under way.
func (c *conn) pingLocked() {
	h := &c.health
	if h.pinging {
		return
	}
	h.pinging = true
	h.pings++
	c.resets.covered, c.resets.after = c.resets.after, 0
	_ = c.queued.WritePing(false, pingData(h.pings))
	c.flushLocked()
	c.awaitAnswerLocked()
}

// resetLocked notifies the server that this client has ended a stream.
func (c *conn) resetLocked(id uint32, code http2.ErrCode) {
	if c.err != nil {
		return
	}
	_ = c.queued.WriteRSTStream(id, code)
	c.flushLocked()
	c.resets.last = max(c.resets.last, id)
	c.resets.after++
	c.pingLocked()
}

// pinged handles the acknowledgement of a PING: the server knows of the RST_STREAM
// frames before it.
func (c *conn) pinged(data [8]byte) {
	c.mu.Lock()
	h := &c.health
	if !h.pinging || data != pingData(h.pings) {
		c.mu.Unlock() // not an answer to a PING of ours
		return
	}
	h.pinging = false
	h.answer.Stop()
	if h.asked {
		h.asked = false
		h.silence.Reset(c.options.pingAfter)
	}
	c.resets.covered = 0
	if c.resets.after > 0 {
		c.pingLocked()
	}
	c.mu.Unlock()
}

func pingData(n uint64) (data [8]byte) {
	binary.BigEndian.PutUint64(data[:], n)
	return data
}
