// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"maps"
	"sync"

	"golang.org/x/net/http2"
)

// Reasons why a connection takes no new streams.
const (
	// Idle: it had no streams, for 90 s or when CloseIdleConnections was called.
	Idle = "idle"
	// GoAway: the server has sent GOAWAY.
	GoAway = "goaway"
	// Lost: it was closed by the server, or could not be read or written.
	Lost = "lost"
	// NoPingAnswer: the server has not acknowledged a PING in time.
	NoPingAnswer = "no_ping_answer"
	// ProtocolError: the server has sent what HTTP/2 does not allow.
	ProtocolError = "protocol_error"
	// FrameAfterEnd: the server has sent a frame on a stream that it had ended.
	FrameAfterEnd = "frame_after_end"
	// Poisoned: the server has reset a stream with PROTOCOL_ERROR, and may reset all new ones.
	Poisoned = "poisoned"
	// Resets: the server has reset requests that succeeded on another connection.
	Resets = "resets"
	// Suspect: the server left a request without an answer. New requests prefer other
	// connections, and this one may be well again. It counts each time, and once more when
	// the connection ends.
	Suspect = "suspect"
	// Other: it has used all stream ids.
	Other = "other"
)

// OtherCode stands for the codes that RFC 9113 does not define.
const OtherCode = "other"

// Counts are what [Counters] have counted. Each map has all its keys.
type Counts struct {
	// Resets counts the RST_STREAM frames of servers that have ended a stream, by their code
	// as RFC 9113 writes it, such as "INTERNAL_ERROR", or [OtherCode].
	Resets map[string]uint64
	// GoAways counts the GOAWAY frames of servers, by code.
	GoAways map[string]uint64
	// Left counts the connections that take no new streams any more.
	Left map[string]uint64
}

// Counters count what servers, and this package, do to the connections of watches. The zero
// value is ready to use, and a nil pointer counts nothing. Methods are safe for concurrent use.
//
// Frames are counted if this package runs the stream: see [WithParking].
type Counters struct {
	mu     sync.Mutex
	counts Counts
}

type countersKey struct{}

// WithCounters returns a context for requests. If one of them causes a dial, the counters
// count what becomes of the connection, whichever requests it carries later.
func WithCounters(ctx context.Context, counters *Counters) context.Context {
	return context.WithValue(ctx, countersKey{}, counters)
}

// countersOf returns nil for a context that is not from WithCounters.
func countersOf(ctx context.Context) *Counters {
	counters, _ := ctx.Value(countersKey{}).(*Counters)
	return counters
}

// Counts returns what was counted.
func (c *Counters) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	return Counts{Resets: maps.Clone(c.counts.Resets), GoAways: maps.Clone(c.counts.GoAways), Left: maps.Clone(c.counts.Left)}
}

// lastCode is the last code of RFC 9113, section 7. They begin with 0.
const lastCode = http2.ErrCodeHTTP11Required

func (c *Counters) initLocked() {
	if c.counts.Left != nil {
		return
	}
	c.counts = Counts{
		Resets: map[string]uint64{OtherCode: 0}, GoAways: map[string]uint64{OtherCode: 0},
		Left: map[string]uint64{
			Idle: 0, GoAway: 0, Lost: 0, NoPingAnswer: 0, ProtocolError: 0, FrameAfterEnd: 0, Poisoned: 0, Resets: 0, Suspect: 0, Other: 0,
		},
	}
	for code := range lastCode + 1 {
		c.counts.Resets[code.String()], c.counts.GoAways[code.String()] = 0, 0
	}
}

// count adds one to the counts. The key is within what counts exist.
func (c *Counters) count(add func(*Counts)) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.initLocked()
	add(&c.counts)
}

func (c *Counters) reset(code http2.ErrCode)  { c.count(func(n *Counts) { n.Resets[label(code)]++ }) }
func (c *Counters) goAway(code http2.ErrCode) { c.count(func(n *Counts) { n.GoAways[label(code)]++ }) }
func (c *Counters) left(reason string)        { c.count(func(n *Counts) { n.Left[reason]++ }) }

// label bounds the labels: a server may send any code.
func label(code http2.ErrCode) string {
	if code > lastCode {
		return OtherCode
	}
	return code.String()
}
