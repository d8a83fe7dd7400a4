// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What a connection writes at once, and what waits in its queue.

// keptBuffer is how large a write buffer may be to be kept for the next write.
const keptBuffer = 4 << 10

// flushLocked lets a goroutine write the queue.
//
// The queue needs no limit: it holds an RST_STREAM for each stream at most, one PING, and
// credit for data that has arrived.
func (c *conn) flushLocked() {
	if c.flushing || c.err != nil {
		return
	}
	c.flushing = true
	c.background.Go(func() {
		_ = c.write(func() error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.flushing = false
			return nil
		})
	})
}

// creditLocked announces credit; an increment of 0 is none. Stream 0 is the connection.
func (c *conn) creditLocked(id uint32, increment int32) {
	if increment > 0 {
		_ = c.queued.WriteWindowUpdate(id, uint32(increment))
		c.flushLocked()
	}
}

// write writes the frames that add writes to the framer, and the queue, in one write. An
// error ends the connection.
func (c *conn) write(add func() error) error {
	c.writing <- struct{}{}
	err := c.flush(add())
	<-c.writing
	if err != nil {
		c.fail(err)
	}
	return err
}

// flush writes what the framer has written, if that was no error, and the queue. The
// caller holds writing, and ends the connection after an error: a part of a frame may
// have been sent.
func (c *conn) flush(err error) error {
	c.mu.Lock()
	c.out.Write(c.queue.Bytes())
	reset(&c.queue)
	c.mu.Unlock()
	if err == nil && c.out.Len() > 0 {
		// If the deadline cannot be set, the write fails too. It is cleared after a
		// success, because a Read of a tls.Conn may write as well.
		_ = c.net.SetWriteDeadline(time.Now().Add(c.options.writeTimeout))
		if _, err = c.net.Write(c.out.Bytes()); err == nil {
			_ = c.net.SetWriteDeadline(time.Time{})
		}
	}
	reset(&c.out)
	reset(&c.block)
	return err
}

func reset(b *bytes.Buffer) {
	if b.Reset(); b.Cap() > keptBuffer {
		*b = bytes.Buffer{}
	}
}

// writePreface writes what a connection begins with (RFC 9113, section 3.4), and
// enlarges its window. The caller holds writing.
func (c *conn) writePreface() error {
	c.out.WriteString(http2.ClientPreface)
	err := c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0},
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.options.streamWindow)},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.options.maxHeaderList},
	)
	if err == nil {
		err = c.framer.WriteWindowUpdate(0, connWindow-initialWindow)
	}
	return c.flush(err)
}

// writeHeaders adds the HEADERS and CONTINUATION frames of a request. The caller holds
// writing.
func (c *conn) writeHeaders(id uint32, fields []hpack.HeaderField) error {
	for _, f := range fields {
		if err := c.encoder.WriteField(f); err != nil {
			return err
		}
	}
	size := int(c.peerFrame)
	part := c.block.Next(size)
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: id, BlockFragment: part, EndStream: true, EndHeaders: c.block.Len() == 0,
	})
	for err == nil && c.block.Len() > 0 {
		part = c.block.Next(size)
		err = c.framer.WriteContinuation(id, c.block.Len() == 0, part)
	}
	return err
}
