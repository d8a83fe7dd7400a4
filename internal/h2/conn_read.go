// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

// The reader of a connection, and its frames.

// longestDebug is how much of what a server writes into a GOAWAY is kept.
const longestDebug = 1 << 10

var errFromServer = redact.New("the server reset the stream")

// errReaderEnded is the error of the streams of a connection whose reader a function of the program
// has ended (runtime.Goexit).
var errReaderEnded = redact.New("a function of the program has ended the goroutine that reads the connection")

// read is the reader: it handles frames until the connection ends, and then ends what
// is left of its streams.
func (c *conn) read() {
	err := errReaderEnded
	defer func() { c.readerEnds(err) }()
	err = c.readFrames()
}

func (c *conn) readerEnds(err error) {
	defer close(c.done)
	c.setError(err) // the first one counts, such as that of a write
	c.stopHealth()
	c.endStreams(0, nil)
	if broken := (protocolError{}); errors.As(err, &broken) {
		// The server learns why, if it still reads.
		_ = c.write(func() error { return c.framer.WriteGoAway(0, broken.code, nil) })
	}
	_ = c.net.Close()
	c.background.Wait()
}

func (c *conn) readFrames() error {
	for first := true; ; first = false {
		h, f, err := c.readFrame()
		if err == nil {
			c.sawFrame()
			if s, ok := f.(*http2.SettingsFrame); first && (!ok || s.IsAck()) {
				return protocolError{http2.ErrCodeProtocol, "its first frame is not SETTINGS"}
			}
			err = c.handle(f)
		}
		if err != nil {
			err = c.resetStream(h, err)
		}
		if err != nil {
			return c.readError(err)
		}
	}
}

// readFrame reads a frame and its header. The framer's error for a HEADERS frame with too
// much padding concerns the stream only. But the header is not decoded then, and those
// that follow need what it would have added to the HPACK table (RFC 9113, section 4.3).
func (c *conn) readFrame() (http2.FrameHeader, http2.Frame, error) {
	h, err := c.framer.ReadFrameHeader()
	if err != nil {
		return h, nil, err
	}
	f, err := c.framer.ReadFrameForHeader(h)
	if err == nil || h.Type != http2.FrameHeaders {
		return h, f, err
	}
	if broken := (http2.StreamError{}); errors.As(err, &broken) && broken.Cause == nil {
		err = protocolError{broken.Code, "HEADERS frame with too much padding"}
	}
	return h, nil, err
}

// readError returns why no more frames can be read: the server's error, or that of the
// network.
func (c *conn) readError(err error) error {
	var code http2.ConnectionError
	switch {
	case errors.As(err, &protocolError{}):
		return err
	case errors.As(err, &code):
		reason := "invalid frame"
		if detail := c.framer.ErrorDetail(); detail != nil {
			reason = detail.Error()
		}
		return protocolError{http2.ErrCode(code), reason}
	case errors.Is(err, http2.ErrFrameTooLarge):
		return protocolError{http2.ErrCodeFrameSize, strings.TrimPrefix(err.Error(), "http2: ")}
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // io.EOF is the regular end of a body
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goAway != nil {
		return redact.Errorf("%w: %w", *c.goAway, err)
	}
	return err
}

// handle handles one frame. A StreamError ends its stream, any other error the
// connection. Frames of unknown types are ignored (RFC 9113, section 4.1), as is
// PRIORITY.
func (c *conn) handle(f http2.Frame) error {
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		return c.readHeader(f)
	case *http2.DataFrame:
		return c.readData(f)
	case *http2.RSTStreamFrame:
		return c.readReset(f)
	case *http2.WindowUpdateFrame:
		return c.readWindowUpdate(f)
	case *http2.SettingsFrame:
		return c.applySettings(f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.pinged(f.Data)
			return nil
		}
		return c.write(func() error { return c.framer.WritePing(true, f.Data) })
	case *http2.GoAwayFrame:
		c.readGoAway(f)
	case *http2.PushPromiseFrame:
		return protocolError{http2.ErrCodeProtocol, "PUSH_PROMISE, though push is disabled"}
	}
	return nil
}

// streamLocked returns the open stream of a frame, or nil if it has ended and the frame
// is to be ignored. An error ends the connection (RFC 9113, section 5.1).
//
// DATA and HEADERS are ignored if this client may have reset the stream: on those up to
// the last one that it has reset. Otherwise the server itself has ended the stream, and the
// connection takes no new ones. The server may have sent WINDOW_UPDATE before, and servers send
// RST_STREAM after a response.
func (c *conn) streamLocked(h http2.FrameHeader) (*stream, error) {
	if s := c.streams[h.StreamID]; s != nil {
		return s, nil
	}
	if h.StreamID%2 == 0 || h.StreamID >= c.nextID {
		return nil, protocolError{http2.ErrCodeProtocol, fmt.Sprintf("%v on a stream that was not opened", h.Type)}
	}
	if h.StreamID > c.resets.last && (h.Type == http2.FrameData || h.Type == http2.FrameHeaders) {
		c.strayLocked()
	}
	return nil, nil
}

// strayLocked handles a frame on a stream that the server had ended. The server has broken
// the protocol, but not for the other streams: these go on, and the connection takes no new
// ones.
func (c *conn) strayLocked() {
	if c.strayed || c.err != nil {
		return
	}
	c.strayed = true
	_ = c.queued.WriteGoAway(0, http2.ErrCodeStreamClosed, nil)
	c.flushLocked()
}

func (c *conn) readReset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	s, err := c.streamLocked(f.FrameHeader)
	if s == nil {
		c.mu.Unlock()
		return err
	}
	var reset error = http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode, Cause: errFromServer}
	if f.ErrCode == http2.ErrCodeRefusedStream {
		reset = redact.Errorf("%w: %w", errUnprocessed, reset)
	}
	c.options.counters.reset(f.ErrCode)
	c.poisoned = c.poisoned || f.ErrCode == http2.ErrCodeProtocol
	notify := s.endLocked(reset)
	c.mu.Unlock()
	notify()
	return nil
}

func (c *conn) readWindowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		if c.outflow += int64(f.Increment); c.outflow > math.MaxInt32 {
			return protocolError{http2.ErrCodeFlowControl, "WINDOW_UPDATE makes the connection's window too large"}
		}
		return nil
	}
	s, err := c.streamLocked(f.FrameHeader)
	if s == nil {
		return err
	}
	if c.peerWindow+int64(s.outflow)+int64(f.Increment) > math.MaxInt32 {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl,
			Cause: redact.New("WINDOW_UPDATE makes the stream's window too large")}
	}
	s.outflow += f.Increment
	return nil
}

// readGoAway ends the streams that the server will not process. The others go on, and
// the connection is closed after the last of them.
func (c *conn) readGoAway(f *http2.GoAwayFrame) {
	c.options.counters.goAway(f.ErrCode)
	c.mu.Lock()
	debug := f.DebugData()
	c.goAway = &http2.GoAwayError{LastStreamID: f.LastStreamID, ErrCode: f.ErrCode, DebugData: string(debug[:min(len(debug), longestDebug)])}
	err := redact.Errorf("%w: %w", errUnprocessed, *c.goAway)
	c.mu.Unlock()
	c.endStreams(f.LastStreamID, err)
}

// endStreams ends the streams with ids above last. nil stands for the error of the
// connection.
func (c *conn) endStreams(last uint32, err error) {
	c.mu.Lock()
	if err == nil {
		err = c.err
	}
	var notify []func()
	for id, s := range c.streams {
		if id > last {
			notify = append(notify, s.endLocked(err))
		}
	}
	c.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

// resetStream ends the stream of a StreamError and notifies the server. It returns
// other errors. h is the header of the frame that has caused the error.
func (c *conn) resetStream(h http2.FrameHeader, err error) error {
	var broken http2.StreamError
	if !errors.As(err, &broken) {
		return err
	}
	c.mu.Lock()
	s, err := c.streamLocked(h)
	if s == nil {
		c.mu.Unlock()
		return err
	}
	notify := s.endLocked(broken)
	c.resetLocked(s.id, broken.Code)
	c.mu.Unlock()
	notify()
	return nil
}
