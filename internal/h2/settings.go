// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"fmt"
	"math"

	"golang.org/x/net/http2"
)

// The server's SETTINGS, and the errors that end a connection.

// protocolError ends the connection: the server has broken RFC 9113. code is sent with
// GOAWAY.
type protocolError struct {
	code   http2.ErrCode
	reason string
}

func (e protocolError) Error() string {
	return fmt.Sprintf("the server broke the HTTP/2 protocol: %s (%v)", e.reason, e.code)
}

// Is makes http2.ConnectionError of the same code match.
func (e protocolError) Is(target error) bool {
	var c http2.ConnectionError
	return errors.As(target, &c) && http2.ErrCode(c) == e.code
}

// applySettings takes over the server's SETTINGS and acknowledges them. The frames
// that follow the acknowledgement keep to them, because both happen while writing is
// held.
func (c *conn) applySettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	// Checked before writing is held: then an error needs no undoing.
	if err := f.ForeachSetting(checkSetting); err != nil {
		return err
	}
	var invalid error // not an error of the write: GOAWAY is to follow
	err := c.write(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		invalid = f.ForeachSetting(c.applySettingLocked)
		return c.framer.WriteSettingsAck()
	})
	if invalid != nil {
		return invalid
	}
	c.mu.Lock()
	c.settled = true
	c.mu.Unlock()
	return err
}

func checkSetting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		var code http2.ConnectionError
		errors.As(err, &code)
		return protocolError{http2.ErrCode(code), fmt.Sprintf("%v is not allowed", s)}
	}
	if s.ID == http2.SettingEnablePush && s.Val != 0 {
		return protocolError{http2.ErrCodeProtocol, "SETTINGS_ENABLE_PUSH is for clients"}
	}
	return nil
}

// applySettingLocked also needs writing held.
func (c *conn) applySettingLocked(s http2.Setting) error {
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(s.Val) // at most 4,096 bytes, whatever the server allows
	case http2.SettingMaxConcurrentStreams:
		c.maxStreams = s.Val
	case http2.SettingInitialWindowSize:
		c.peerWindow = int64(s.Val)
		for _, st := range c.streams {
			if c.peerWindow+int64(st.outflow) > math.MaxInt32 {
				return protocolError{http2.ErrCodeFlowControl, "SETTINGS_INITIAL_WINDOW_SIZE makes a window too large"}
			}
		}
	case http2.SettingMaxFrameSize:
		c.peerFrame = s.Val
	case http2.SettingMaxHeaderListSize:
		c.peerHeaderMax = s.Val
	}
	return nil
}
