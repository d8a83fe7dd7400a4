// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// accept sends SETTINGS and acknowledges those of the client.
func (s *script) accept(settings ...http2.Setting) {
	s.t.Helper()
	s.settings(settings...)
	f := s.take("SETTINGS", func(f frame) bool {
		return f.Type == http2.FrameSettings && !f.Flags.Has(http2.FlagSettingsAck)
	})
	s.announced = f.settings
	s.settingsAck()
}

// setting returns what the client has announced, or def.
func (s *script) setting(id http2.SettingID, def int) int {
	for _, v := range s.announced {
		if v.ID == id {
			def = int(v.Val)
		}
	}
	return def
}

// announcedFrameSize is the size of the largest frame that the client accepts.
func (s *script) announcedFrameSize() int { return s.setting(http2.SettingMaxFrameSize, maxFrame) }

// request waits for the request of a path, and returns the id of its stream.
func (s *script) request(path string) uint32 {
	s.t.Helper()
	return s.take("request of "+path, func(f frame) bool {
		for _, field := range f.fields {
			if field.Name == ":path" && field.Value == path {
				return true
			}
		}
		return false
	}).StreamID
}

// send writes what f encodes with the framer.
func (s *script) send(f func() error) {
	if err := f(); err != nil {
		s.t.Errorf("encoding a frame: %v", err)
	}
	if !s.holding {
		s.flush(s.out.Len())
	}
}

func (s *script) flush(n int) {
	_, _ = s.conn.Write(s.out.Bytes()[:n]) // the client may have closed the connection
	s.out.Reset()
}

// half sends only the first n bytes of the frames that f sends; a negative n omits the
// last bytes.
func (s *script) half(n int, f func()) {
	s.holding = true
	f()
	s.holding = false
	if n < 0 {
		n += s.out.Len()
	}
	s.flush(min(n, s.out.Len()))
}

// together sends the frames that f sends in one write.
func (s *script) together(f func()) { s.half(1<<30, f) }

// bytes sends b as it is.
func (s *script) bytes(b []byte) { s.send(func() error { _, err := s.out.Write(b); return err }) }

// raw sends a frame of any type.
func (s *script) raw(typ http2.FrameType, flags http2.Flags, id uint32, payload string) {
	s.send(func() error { return s.framer.WriteRawFrame(typ, flags, id, []byte(payload)) })
}

// block encodes fields, given as name, value, name, value.
func (s *script) block(fields ...string) []byte {
	s.headers.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		_ = s.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return append([]byte(nil), s.headers.Bytes()...)
}

func (s *script) headersFrame(id uint32, end bool, fields []string) {
	block := s.block(fields...)
	s.send(func() error {
		return s.framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: end,
		})
	})
}

// header sends fields in one HEADERS frame; endHeader has END_STREAM as well.
func (s *script) header(id uint32, fields ...string)    { s.headersFrame(id, false, fields) }
func (s *script) endHeader(id uint32, fields ...string) { s.headersFrame(id, true, fields) }

// ok sends the header of a regular response.
func (s *script) ok(id uint32) { s.header(id, ":status", "200", "content-type", "application/json") }

// data sends DATA frames of at most 16 KiB, endData with END_STREAM on the last one.
func (s *script) data(id uint32, text string)    { s.dataFrames(id, false, text) }
func (s *script) endData(id uint32, text string) { s.dataFrames(id, true, text) }

func (s *script) dataFrames(id uint32, end bool, text string) {
	for len(text) > maxFrame {
		s.send(func() error { return s.framer.WriteData(id, false, []byte(text[:maxFrame])) })
		text = text[maxFrame:]
	}
	s.send(func() error { return s.framer.WriteData(id, end, []byte(text)) })
}

func (s *script) settings(settings ...http2.Setting) {
	s.send(func() error { return s.framer.WriteSettings(settings...) })
}
func (s *script) settingsAck() { s.send(s.framer.WriteSettingsAck) }

func (s *script) window(id, n uint32) {
	s.send(func() error { return s.framer.WriteWindowUpdate(id, n) })
}

func (s *script) reset(id uint32, code http2.ErrCode) {
	s.send(func() error { return s.framer.WriteRSTStream(id, code) })
}

func (s *script) goAway(last uint32, code http2.ErrCode) {
	s.send(func() error { return s.framer.WriteGoAway(last, code, nil) })
}

func (s *script) ping(n uint64) {
	s.send(func() error { return s.framer.WritePing(false, pingData(n)) })
}

func (s *script) pong(data [8]byte) { s.send(func() error { return s.framer.WritePing(true, data) }) }

// answersPing reports whether the client answers a PING: the connection is alive and
// its reader has dealt with all frames before.
func (s *script) answersPing() bool {
	s.pings++
	s.ping(s.pings)
	return s.await(func() bool {
		for _, f := range s.log {
			if f.Type == http2.FramePing && f.Flags.Has(http2.FlagPingAck) && f.ping == pingData(s.pings) {
				return true
			}
		}
		return false
	})
}

// resets returns the codes of the RST_STREAM frames of a stream.
func (s *script) resets(id uint32) (codes []http2.ErrCode) {
	for _, f := range s.frames(func(f frame) bool { return f.Type == http2.FrameRSTStream && f.StreamID == id }) {
		codes = append(codes, f.code)
	}
	return codes
}

// credit returns how much flow-control credit the client has sent for a stream, or for
// the connection with id 0.
func (s *script) credit(id uint32) (n int) {
	for _, f := range s.frames(func(f frame) bool { return f.Type == http2.FrameWindowUpdate && f.StreamID == id }) {
		n += int(f.increment)
	}
	return n
}

// cut ends the connection with a FIN, after what was sent.
func (s *script) cut() { _ = s.conn.Close() }

// pushPromise promises stream promised in a frame for stream id.
func (s *script) pushPromise(id, promised uint32) {
	block := s.block(":method", "GET", ":scheme", "http", ":authority", "server", ":path", "/pushed")
	s.send(func() error {
		return s.framer.WritePushPromise(http2.PushPromiseParam{
			StreamID: id, PromiseID: promised, BlockFragment: block, EndHeaders: true,
		})
	})
}
