// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"math"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

// TestConnectionErrors: a server that breaks the protocol of the connection gets
// GOAWAY, and all streams end.
func TestConnectionErrors(t *testing.T) {
	setting := func(id http2.SettingID, v uint32) func(*peer) {
		return func(p *peer) { p.send(p.framer.WriteSettings(http2.Setting{ID: id, Val: v})) }
	}
	raw := func(typ http2.FrameType, flags http2.Flags, id uint32, payload string) func(*peer) {
		return func(p *peer) { p.send(p.framer.WriteRawFrame(typ, flags, id, []byte(payload))) }
	}
	tests := map[string]struct {
		send func(*peer)
		want string
	}{
		"ENABLE_PUSH":                {setting(http2.SettingEnablePush, 1), "PROTOCOL_ERROR"},
		"INITIAL_WINDOW_SIZE":        {setting(http2.SettingInitialWindowSize, 1<<31), "FLOW_CONTROL_ERROR"},
		"MAX_FRAME_SIZE too small":   {setting(http2.SettingMaxFrameSize, 1<<14-1), "PROTOCOL_ERROR"},
		"SETTINGS on a stream":       {raw(http2.FrameSettings, 0, 1, ""), "PROTOCOL_ERROR"},
		"SETTINGS ack with payload":  {raw(http2.FrameSettings, 1, 0, "123456"), "FRAME_SIZE_ERROR"},
		"WINDOW_UPDATE 0":            {raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00"), "PROTOCOL_ERROR"},
		"WINDOW_UPDATE overflows":    {raw(http2.FrameWindowUpdate, 0, 0, "\x7f\xff\xff\xff"), "FLOW_CONTROL_ERROR"},
		"WINDOW_UPDATE, idle stream": {raw(http2.FrameWindowUpdate, 0, 9, "\x00\x00\x00\x01"), "PROTOCOL_ERROR"},
		"RST_STREAM, idle stream":    {raw(http2.FrameRSTStream, 0, 9, "\x00\x00\x00\x01"), "PROTOCOL_ERROR"},
		"HEADERS, idle stream":       {func(p *peer) { p.header(9, false, ":status", "200") }, "PROTOCOL_ERROR"},
		"DATA, idle stream":          {func(p *peer) { p.data(9, "x") }, "PROTOCOL_ERROR"},
		"DATA, stream of the server": {func(p *peer) { p.data(2, "x") }, "PROTOCOL_ERROR"},
		"DATA, no stream":            {func(p *peer) { p.data(0, "x") }, "PROTOCOL_ERROR"},
		"PING of the wrong size":     {raw(http2.FramePing, 0, 0, "1234"), "FRAME_SIZE_ERROR"},
		"PUSH_PROMISE":               {raw(http2.FramePushPromise, 4, 1, "\x00\x00\x00\x02"), "PROTOCOL_ERROR"},
		"CONTINUATION out of order":  {raw(http2.FrameContinuation, 4, 1, ""), "PROTOCOL_ERROR"},
		"invalid HPACK":              {raw(http2.FrameHeaders, 4, 1, "\xff\xff\xff\xff\xff\xff"), "COMPRESSION_ERROR"},
		"frame too large": {func(p *peer) {
			_, err := p.net.Write([]byte{0, 0x40, 1, 99, 0, 0, 0, 0, 0})
			p.send(err)
		}, "FRAME_SIZE_ERROR"},
		"HEADERS with padding": {raw(http2.FrameHeaders, 0xc, 1, "\x09x"), "PROTOCOL_ERROR"},
		"a frame in a header": {func(p *peer) {
			raw(http2.FrameHeaders, 0, 1, "")(p)
			p.data(1, "x")
		}, "PROTOCOL_ERROR"},
		"a window overflows by SETTINGS": {func(p *peer) {
			raw(http2.FrameWindowUpdate, 0, 1, "\x7f\xff\x00\x00")(p)
			setting(http2.SettingInitialWindowSize, 1<<17)(p)
		}, "FLOW_CONTROL_ERROR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, p *peer) {
				_, s := p.open(1)
				test.send(p)
				<-p.c.done
				err := s.ended(t)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("the stream's error is %v, want %s", err, test.want)
				}
				sent := p.sent()
				if len(sent) == 0 || sent[len(sent)-1] != "GOAWAY "+test.want {
					t.Errorf("the client sent %q, want GOAWAY %s", sent, test.want)
				}
			})
		})
	}
}

func TestFirstFrameIsSettings(t *testing.T) {
	tests := map[string]func(*peer) error{
		"PING":         func(p *peer) error { return p.framer.WritePing(false, [8]byte{}) },
		"SETTINGS ack": func(p *peer) error { return p.framer.WriteSettingsAck() },
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			withBarePeer(t, func(t *testing.T, p *peer) {
				p.sent()
				p.send(send(p))
				<-p.c.done
				p.wantSent("GOAWAY PROTOCOL_ERROR")
			})
		})
	}
}

// TestStreamErrors: an error of one stream resets it; the others go on.
func TestStreamErrors(t *testing.T) {
	header := func(end bool, fields ...string) func(*peer) {
		return func(p *peer) { p.header(3, end, fields...) }
	}
	both := func(first, second func(*peer)) func(*peer) { return func(p *peer) { first(p); second(p) } }
	data := func(end bool, text string) func(*peer) {
		return func(p *peer) { p.send(p.framer.WriteData(3, end, []byte(text))) }
	}
	ok := header(false, ":status", "200")
	sized := header(false, ":status", "200", "content-length", "3")
	large := strings.Repeat("x", 1<<14)
	tests := map[string]func(*peer){
		"no :status":                 header(false, "x", "y"),
		":status is no number":       header(false, ":status", "2x0"),
		":status is short":           header(false, ":status", "99"),
		":status 101":                header(false, ":status", "101"),
		"a header of a request":      header(false, ":status", "200", ":path", "/"),
		"a field of HTTP/1":          header(false, ":status", "200", "connection", "close"),
		"upper case":                 header(false, ":status", "200", "X-A", "b"),
		"1xx ends the stream":        header(true, ":status", "103"),
		"content-length":             header(false, ":status", "200", "content-length", "1x"),
		"two content-lengths":        header(false, ":status", "200", "content-length", "1", "content-length", "2"),
		"no body for content-length": header(true, ":status", "200", "content-length", "1"),
		"body too long":              both(sized, data(false, "1234")),
		"body too short":             both(sized, data(true, "12")),
		"body too short for trailer": both(sized, header(true, "x", "y")),
		"a second header":            both(ok, ok),
		"trailer without end":        both(ok, header(false, "x", "y")),
		"trailer with :status":       both(ok, header(true, ":status", "200")),
		"DATA before the header":     data(true, ""),
		"WINDOW_UPDATE 0": func(p *peer) {
			p.send(p.framer.WriteRawFrame(http2.FrameWindowUpdate, 0, 3, make([]byte, 4)))
		},
		"WINDOW_UPDATE overflows": func(p *peer) { p.send(p.framer.WriteWindowUpdate(3, math.MaxInt32)) },
		"header too large": func(p *peer) {
			fields := []string{":status", "200"}
			for range 1<<20/len(large) + 1 {
				fields = append(fields, "x", large) // indexed, so that it is small as sent
			}
			p.encoder.SetMaxDynamicTableSizeLimit(0)
			block := p.encode(fields...)
			const part = 1 << 14
			p.send(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: block[:part]}))
			for block = block[part:]; len(block) > part; block = block[part:] {
				p.send(p.framer.WriteContinuation(3, false, block[:part]))
			}
			p.send(p.framer.WriteContinuation(3, true, block))
		},
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			withPeer(t, func(t *testing.T, p *peer) {
				_, other := p.open(1)
				a := p.get(t.Context())
				p.sent()
				send(p)
				code := "PROTOCOL_ERROR"
				if strings.Contains(name, "overflows") {
					code = "FLOW_CONTROL_ERROR"
				}
				p.wantSent("RST_STREAM 3 "+code, "PING")
				if got := p.c.taken(); got != 2 {
					t.Errorf("%d slots are taken before the answer to the PING, want 2", got)
				}
				<-a.done
				err := a.err
				if a.body != nil {
					s := &sink{}
					a.body.Receive(s)
					err = s.ended(t)
				}
				if !errors.As(err, &http2.StreamError{}) || errors.Is(err, errUnprocessed) {
					t.Errorf("the stream's error is %v, want a StreamError", err)
				}
				p.data(1, "on")
				if got, err := other.got(), other.ended(t); got != "on" || err != nil {
					t.Errorf("the other stream got %q, End(%v)", got, err)
				}
			})
		})
	}
}

// TestHeaderBomb: a header list that goes on after the limit ends the connection.
func TestHeaderBomb(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		_, s := p.open(1)
		p.encoder.SetMaxDynamicTableSizeLimit(0)
		block := p.encode("x", strings.Repeat("x", 1<<13))
		err := p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block})
		for n := 0; err == nil; n++ {
			if n > 1<<10 {
				t.Fatal("the client reads a header without end")
			}
			err = p.framer.WriteContinuation(1, false, block)
		}
		if err := s.ended(t); !errors.Is(err, http2.ConnectionError(http2.ErrCodeProtocol)) {
			t.Errorf("End(%v), want PROTOCOL_ERROR", err)
		}
	})
}

func TestServerResets(t *testing.T) {
	for code, unprocessed := range map[http2.ErrCode]bool{http2.ErrCodeRefusedStream: true, http2.ErrCodeInternal: false,
		http2.ErrCodeNo: false} {
		t.Run(code.String(), func(t *testing.T) {
			withPeer(t, func(t *testing.T, p *peer) {
				a := p.get(t.Context())
				p.sent()
				p.send(p.framer.WriteRSTStream(1, code))
				<-a.done
				if errors.Is(a.err, errUnprocessed) != unprocessed || !strings.Contains(a.err.Error(), code.String()) {
					t.Errorf("roundTrip: %v", a.err)
				}
				p.wantSent()
				if got := p.c.taken(); got != 0 {
					t.Errorf("%d slots are taken", got)
				}
			})
		})
	}
}

func TestFramesWithoutEffect(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		_, s := p.open(1)
		a3, _ := p.open(3)
		_ = a3.body.Close()
		p.pong()
		p.sent()
		p.send(p.framer.WriteRawFrame(99, 0xff, 1, []byte("unknown")))
		p.send(p.framer.WriteRawFrame(99, 0, 8, []byte("unknown")))
		p.send(p.framer.WritePriority(9, http2.PriorityParam{StreamDep: 1}))
		p.send(p.framer.WriteSettings(http2.Setting{ID: 99, Val: 1}))
		p.send(p.framer.WriteSettingsAck())
		p.send(p.framer.WritePing(false, [8]byte{7}))
		p.header(3, true, ":status", "200") // sent before the server knew that the stream has ended
		p.data(3, "late")
		p.send(p.framer.WriteWindowUpdate(3, 1))
		p.send(p.framer.WriteRSTStream(3, http2.ErrCodeCancel))
		p.data(1, "on")
		p.wantSent("SETTINGS ack", "PING ack 0700000000000000")
		if got, err := s.got(), s.ended(t); got != "on" || err != nil {
			t.Errorf("the stream got %q, End(%v)", got, err)
		}
	})
}
