// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// keptBuffer is how large a write buffer may be to be kept for the next write.
const keptBuffer = 4 << 10

// write writes the frames that add writes to the framer, in one write. An error ends
// the connection.
func (c *conn) write(add func() error) error {
	c.writing <- struct{}{}
	err := c.flush(add())
	<-c.writing
	if err != nil {
		c.fail(err)
	}
	return err
}

// flush writes what the framer has written, if that was no error. The caller holds
// writing, and ends the connection after an error: a part of a frame may have been
// sent.
func (c *conn) flush(err error) error {
	if err == nil {
		// If the deadline cannot be set, the write fails too. It is cleared afterwards,
		// because a Read of a tls.Conn may write as well.
		_ = c.net.SetWriteDeadline(time.Now().Add(c.options.writeTimeout))
		_, err = c.net.Write(c.out.Bytes())
		_ = c.net.SetWriteDeadline(time.Time{})
	}
	for _, b := range []*bytes.Buffer{&c.out, &c.block} {
		if b.Reset(); b.Cap() > keptBuffer {
			*b = bytes.Buffer{}
		}
	}
	return err
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

// writeReset writes an RST_STREAM, and a PING that follows it unless one is under way.
// The slot of the stream was counted in resets.held.
func (c *conn) writeReset(id uint32, code http2.ErrCode) {
	_ = c.write(func() error {
		if err := c.framer.WriteRSTStream(id, code); err != nil {
			return err
		}
		c.mu.Lock()
		c.resets.after++
		c.mu.Unlock()
		return c.ping()
	})
}

// writeCredit announces credit; an increment of 0 is none. Stream 0 is the connection.
func (c *conn) writeCredit(id uint32, increment int32) error {
	if increment == 0 {
		return nil
	}
	return c.write(func() error { return c.framer.WriteWindowUpdate(id, uint32(increment)) })
}
