// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/refwatch/refwatch/internal/redact"
)

var (
	errConnClosed   = redact.New("this client closed the connection")
	errConnFinished = redact.New("this client closed the connection: it takes no new streams, and the last one has ended")
)

// conn is the client's side of an HTTP/2 connection (RFC 9113) that carries GET
// streams only.
//
// One goroutine, the reader, reads all frames and calls the receivers of the streams.
// It also writes the answers to frames, and so reads no more from a server that does not
// take them. The caller of roundTrip writes the request. All other frames wait in a
// queue, and a goroutine writes them: nobody who closes a stream or consumes its data
// waits for the network. No goroutine waits for a timer.
type conn struct {
	net     net.Conn
	tls     *tls.ConnectionState // nil without TLS
	options connOptions
	done    chan struct{} // closed when the reader has ended

	// framer reads frames on the reader's goroutine, and writes them to out while
	// writing is held.
	framer *http2.Framer

	// writing is the lock of the fields below: whoever has put a value into it writes
	// to the connection. It is a channel, because a goroutine holds it during the write,
	// and the others wait no longer than their contexts last. It is taken before mu.
	writing       chan struct{}
	out           bytes.Buffer // frames of the write under way
	block         bytes.Buffer // what encoder writes
	encoder       *hpack.Encoder
	peerFrame     uint32 // the largest frame that the server takes
	peerHeaderMax uint32 // the largest header list that it takes

	// background are the goroutines besides the reader, which waits for them. None is
	// started when err is set.
	background sync.WaitGroup

	mu         connMutex
	queue      bytes.Buffer     // frames that the next write includes, after those of out
	queued     *http2.Framer    // writes to queue
	flushing   bool             // a goroutine is about to write queue
	events     connectionEvents // nil until newConn returns
	streams    map[uint32]*stream
	nextID     uint32
	maxStreams uint32 // the server's SETTINGS_MAX_CONCURRENT_STREAMS
	settled    bool   // the server's first SETTINGS have come
	early      int    // how many streams are taken until then
	peerWindow int64  // the server's SETTINGS_INITIAL_WINDOW_SIZE
	outflow    int64  // what this client may send on the connection; it sends nothing
	inflow     inflow
	reserved   int // slots that roundTrip or release will give back
	resets     resets
	health     health
	goAway     *http2.GoAwayError // the server's last GOAWAY
	poisoned   bool               // the server has reset a stream with PROTOCOL_ERROR: it may reset all new ones
	strayed    bool               // the server has sent a frame on a stream that it had ended
	err        error              // why the connection ended; nil while it lives
	seen       slots              // what mu has reported
}

// slots are the slots of a connection.
type slots struct {
	limit   int64
	used    int
	settled bool // the server has said the limit
	lost    bool // no new streams are taken
}

// free is negative if the server has lowered the limit below what is used.
func (s slots) free() int64 { return s.limit - int64(s.used) }

// newConn starts an HTTP/2 connection on nc, which it closes if it returns an error.
// Events come from the moment it returns; a connection that takes no streams by then is
// an error.
func newConn(nc net.Conn, events connectionEvents, options connOptions) (*conn, error) {
	c := &conn{
		net:           nc,
		options:       options.withDefaults(),
		done:          make(chan struct{}),
		writing:       make(chan struct{}, 1),
		peerFrame:     maxFrame,
		peerHeaderMax: math.MaxUint32,
		streams:       map[uint32]*stream{},
		nextID:        1,
		maxStreams:    unlimitedStreams,
		peerWindow:    initialWindow,
		outflow:       initialWindow,
		inflow:        inflow{available: connWindow},
	}
	if t, ok := nc.(*tls.Conn); ok {
		state := t.ConnectionState()
		c.tls = &state
	}
	c.mu.conn = c
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(&c.out, bufio.NewReaderSize(nc, readBuffer))
	c.queued = http2.NewFramer(&c.queue, nil)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = c.options.maxHeaderList
	c.startHealth()
	c.writing <- struct{}{} // nothing precedes the preface
	go c.read()             // it may be that the server writes first and reads afterwards
	err := c.writePreface()
	<-c.writing
	c.mu.Lock()
	if err == nil {
		err = c.refusalLocked()
	}
	if err == nil {
		c.events = events
	}
	c.mu.Unlock()
	if err != nil {
		c.fail(err)
		<-c.done
		return nil, err
	}
	return c, nil
}

func (c *conn) refusal() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refusalLocked()
}

// refusalLocked returns why the connection takes no new streams, or nil.
func (c *conn) refusalLocked() error {
	switch {
	case c.err != nil:
		return c.err
	case c.goAway != nil:
		return *c.goAway
	case c.nextID > maxStreamID:
		return redact.New("the connection has used all stream ids")
	case c.poisoned:
		return redact.New("the server has reset a stream for an error of the protocol")
	case c.strayed:
		return redact.New("the server has sent a frame on a stream that it had ended")
	case c.health.overdue:
		return redact.New("the server does not acknowledge PINGs")
	}
	return nil
}

func (c *conn) reason() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.poisoned:
		return Poisoned
	case c.strayed:
		return FrameAfterEnd
	case c.health.overdue, errors.Is(c.err, errNoPingAnswer):
		return NoPingAnswer
	case c.goAway != nil:
		return GoAway
	case errors.As(c.err, &protocolError{}):
		return ProtocolError
	case c.err == nil:
		return Other // the stream ids are used up
	}
	return Lost
}

// usedLocked is the number of taken slots.
func (c *conn) usedLocked() int {
	return len(c.streams) + c.reserved + c.resets.covered + c.resets.after
}

func (c *conn) slotsLocked() slots {
	s := slots{limit: int64(c.early), used: c.usedLocked(), settled: c.settled}
	s.lost = c.seen.lost || c.refusalLocked() != nil // it is lost for good
	if c.settled {
		s.limit = int64(c.maxStreams)
	}
	return s
}

func (c *conn) begin(streams int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.early = streams
}

func (c *conn) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := (maxStreamID+2-int64(c.nextID))/2 - int64(c.reserved)
	if now := c.slotsLocked(); now.lost || ids <= 0 || now.free() <= 0 {
		return false
	}
	c.reserved++
	return true
}

func (c *conn) release() {
	c.mu.Lock()
	c.reserved--
	c.mu.Unlock()
}

func (c *conn) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usedLocked()
}

func (c *conn) limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled {
		return 0
	}
	return int(min(c.maxStreams, math.MaxInt32))
}

// close ends a connection without streams. TLS announces the end to the server, which may
// not read: nobody waits for that.
func (c *conn) close() {
	c.mu.Lock()
	if c.err == nil {
		c.err = ended(errConnClosed)
		c.background.Go(func() { _ = c.net.Close() })
	}
	c.mu.Unlock()
}

// fail ends the connection; the reader ends its streams. TLS would write an alert first,
// and wait up to 5 s for a server that takes nothing: the streams must not wait for that.
func (c *conn) fail(err error) {
	c.setError(err)
	if t, ok := c.net.(*tls.Conn); ok {
		_ = t.NetConn().Close()
		return
	}
	_ = c.net.Close()
}

// setError sets the error of all open streams, unless there is one.
func (c *conn) setError(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = ended(err)
	}
	c.mu.Unlock()
}

// ended is the error of the streams of a connection that err has ended.
func ended(err error) error { return redact.Errorf("HTTP/2 connection ended: %w", err) }
