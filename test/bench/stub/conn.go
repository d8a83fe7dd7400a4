// SPDX-License-Identifier: Apache-2.0

package stub

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// frameSize is the largest frame that a client must accept.
	frameSize = 16 << 10
	// initialWindow is a flow-control window before the client has set another.
	initialWindow = 64<<10 - 1
	// writeTimeout bounds a write to a client that reads nothing.
	writeTimeout = 30 * time.Second
	headerTable  = 4096
)

// conn is one connection. Its goroutine reads requests and answers them. Puts write their events from theirs.
type conn struct {
	server *Server
	net    *tls.Conn
	framer *http2.Framer // read by the connection's goroutine, written under mu
	small  atomic.Int32  // writers of small frames that wait for mu
	done   chan struct{} // closed when the connection ends

	mu      sync.Mutex
	out     *bufio.Writer
	credit  chan struct{} // closed when a window has grown, or the connection ends
	closed  bool
	window  int64 // of the connection, for data that is sent
	initial int64 // window of a new stream
	streams map[uint32]*stream
}

// stream is an open watch, or a request that is not answered yet. Its connection's lock guards window.
type stream struct {
	conn   *conn
	name   string // of the Secret
	id     uint32
	window int64
}

// The headers of answers.
var (
	listHead     = headerBlock(http.StatusOK, contentType)
	watchHead    = headerBlock(http.StatusOK, contentType+";stream=watch")
	notFoundHead = headerBlock(http.StatusNotFound, "text/plain")
)

// headerBlock returns an encoded header that leaves the client's table of headers as it is.
func headerBlock(status int, contentType string) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range []hpack.HeaderField{
		{Name: ":status", Value: strconv.Itoa(status)}, {Name: "content-type", Value: contentType},
	} {
		field.Sensitive = true        // not to be put into the table
		_ = encoder.WriteField(field) // a buffer accepts every write
	}
	return block.Bytes()
}

func newConn(server *Server, net *tls.Conn) *conn {
	c := &conn{
		server: server, net: net, out: bufio.NewWriter(net), credit: make(chan struct{}), done: make(chan struct{}),
		window: initialWindow, initial: initialWindow, streams: map[uint32]*stream{},
	}
	c.framer = http2.NewFramer(c.out, net)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(headerTable, nil)
	return c
}

// serve reads the connection to its end.
func (c *conn) serve() {
	defer c.end()
	preface := make([]byte, len(http2.ClientPreface))
	for read := 0; read < len(preface); {
		n, err := c.net.Read(preface[read:])
		if err != nil {
			return
		}
		read += n
	}
	err := c.write(func() error {
		return c.framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: StreamsPerConnection})
	})
	if string(preface) != http2.ClientPreface || err != nil {
		return
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.handle(frame)
		}
		if err != nil {
			return
		}
	}
}

// end ends all streams. Closing the connection interrupts a write.
func (c *conn) end() {
	_ = c.net.NetConn().Close()
	close(c.done)
	c.mu.Lock()
	c.closed = true
	c.wakeLocked()
	streams := c.streams
	c.streams = nil
	c.mu.Unlock()
	for _, stream := range streams {
		c.server.unregister(stream.name, stream)
	}
	c.server.mu.Lock()
	delete(c.server.conns, c)
	c.server.mu.Unlock()
}

func (c *conn) handle(frame http2.Frame) error {
	switch frame := frame.(type) {
	case *http2.MetaHeadersFrame:
		return c.answer(frame)
	case *http2.RSTStreamFrame:
		c.remove(frame.StreamID)
	case *http2.WindowUpdateFrame:
		c.mu.Lock()
		defer c.mu.Unlock()
		if stream := c.streams[frame.StreamID]; stream != nil {
			stream.window += int64(frame.Increment)
		} else if frame.StreamID == 0 {
			c.window += int64(frame.Increment)
		}
		c.wakeLocked()
	case *http2.SettingsFrame:
		if frame.IsAck() {
			return nil
		}
		return c.write(func() error {
			if size, ok := frame.Value(http2.SettingInitialWindowSize); ok {
				for _, stream := range c.streams {
					stream.window += int64(size) - c.initial
				}
				c.initial = int64(size)
				c.wakeLocked()
			}
			return c.framer.WriteSettingsAck()
		})
	case *http2.PingFrame:
		if !frame.IsAck() {
			return c.write(func() error { return c.framer.WritePing(true, frame.Data) })
		}
	}
	return nil
}

// wakeLocked wakes all that wait for a window.
func (c *conn) wakeLocked() {
	close(c.credit)
	c.credit = make(chan struct{})
}

// write writes frames under the lock, and sends them.
func (c *conn) write(frames func() error) error {
	c.small.Add(1)
	c.mu.Lock()
	c.small.Add(-1)
	defer c.mu.Unlock()
	if err := c.net.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return errors.Join(frames(), c.out.Flush())
}

// remove removes a stream that the client has ended.
func (c *conn) remove(id uint32) {
	c.mu.Lock()
	stream := c.streams[id]
	delete(c.streams, id)
	c.wakeLocked()
	c.mu.Unlock()
	if stream != nil {
		c.server.unregister(stream.name, stream)
	}
}

// answer answers a request, after the latency of the server. Meanwhile it counts as a stream of the connection.
func (c *conn) answer(header *http2.MetaHeadersFrame) error {
	r, unknown := parse(header)
	waiting := &stream{conn: c, name: r.name, id: header.StreamID}
	return c.write(func() error {
		switch {
		case unknown != nil:
			return c.head(header.StreamID, notFoundHead, true)
		case len(c.streams) >= StreamsPerConnection:
			c.server.refused()
			return c.framer.WriteRSTStream(header.StreamID, http2.ErrCodeRefusedStream)
		}
		waiting.window = c.initial
		c.streams[waiting.id] = waiting
		if c.server.latency == 0 {
			return c.answerLocked(waiting, r)
		}
		c.server.waiting(1)
		c.server.running.Go(func() { c.answerLater(waiting, r) })
		return nil
	})
}

// answerLater answers a request after the latency, unless the client has ended it.
func (c *conn) answerLater(waiting *stream, r request) {
	defer c.server.waiting(-1)
	select {
	case <-time.After(c.server.latency):
	case <-c.done:
		return
	}
	err := c.write(func() error {
		if c.streams[waiting.id] != waiting {
			return nil
		}
		return c.answerLocked(waiting, r)
	})
	if err != nil {
		_ = c.net.NetConn().Close() // ends serve
	}
}

func (c *conn) answerLocked(waiting *stream, r request) error {
	if r.watch {
		return c.openLocked(waiting, r)
	}
	delete(c.streams, waiting.id)
	list, err := c.server.list(r.name)
	if err != nil {
		return err
	}
	return errors.Join(c.head(waiting.id, listHead, false), c.framer.WriteData(waiting.id, true, list))
}

// openLocked begins a watch with its first events.
func (c *conn) openLocked(stream *stream, r request) error {
	events, err := c.server.register(r, stream)
	if err := errors.Join(err, c.head(stream.id, watchHead, false)); err != nil || len(events) == 0 {
		return err
	}
	size := int64(len(events))
	if size > frameSize || size > stream.window || size > c.window {
		// To wait here would keep the connection's goroutine from reading the credit.
		return fmt.Errorf("the first %d bytes of a watch exceed a window", size)
	}
	stream.window -= size
	c.window -= size
	return c.framer.WriteData(stream.id, false, events)
}

func (c *conn) head(id uint32, block []byte, end bool) error {
	return c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end,
	})
}

// sendEvent sends an event to a stream in frames, as its windows allow, and lets other writers in between. It is no
// error if the stream or the connection ends meanwhile.
func (c *conn) sendEvent(ctx context.Context, to *stream, event []byte) error {
	for len(event) > 0 {
		for len(event) > frameSize && c.small.Load() > 0 {
			runtime.Gosched()
		}
		sent, credit, open := c.sendSome(to, event)
		if !open {
			return nil
		}
		event = event[sent:]
		if sent > 0 {
			continue
		}
		select {
		case <-credit:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sendSome sends a frame of an event. If no window allows it, it returns a channel that is closed when one has grown.
func (c *conn) sendSome(to *stream, event []byte) (sent int, credit <-chan struct{}, open bool) {
	if len(event) <= frameSize {
		c.small.Add(1)
		defer c.small.Add(-1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.streams[to.id] != to {
		return 0, nil, false
	}
	sent = int(min(int64(len(event)), frameSize, to.window, c.window))
	if sent <= 0 {
		return 0, c.credit, true
	}
	to.window -= int64(sent)
	c.window -= int64(sent)
	err := c.net.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err = errors.Join(err, c.framer.WriteData(to.id, false, event[:sent]), c.out.Flush()); err != nil {
		_ = c.net.NetConn().Close() // ends serve
	}
	return sent, nil, err == nil
}
