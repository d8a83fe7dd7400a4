// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A watch is sent again on another connection if the server has certainly not processed
// it, a limited number of times.
func TestTransportSendsUnprocessedRequestsAgain(t *testing.T) {
	refuse := func(f *http2.Framer, id uint32) bool {
		_ = f.WriteRSTStream(id, http2.ErrCodeRefusedStream)
		return true
	}
	goAway := func(f *http2.Framer, id uint32) bool {
		_ = f.WriteGoAway(id-1, http2.ErrCodeNo, nil)
		return true
	}
	calm := func(f *http2.Framer, id uint32) bool {
		_ = f.WriteGoAway(id-1, http2.ErrCodeEnhanceYourCalm, nil)
		return true
	}
	internal := func(f *http2.Framer, id uint32) bool {
		_ = f.WriteRSTStream(id, http2.ErrCodeInternal)
		return true
	}
	hangUp := func(*http2.Framer, uint32) bool { return false }
	tests := map[string]struct {
		respond func(*http2.Framer, uint32) bool
		times   int // then the server responds with 200
		sent    int
		dials   int
		fails   bool
		again   bool // whether the error says that the request was not processed
	}{
		"refused":           {respond: refuse, times: 1, sent: 2, dials: 2},
		"refused twice":     {respond: refuse, times: 2, sent: 3, dials: 2},
		"refused each time": {respond: refuse, times: 100, sent: refusals, dials: 2, fails: true, again: true},
		"GOAWAY":            {respond: goAway, times: 1, sent: 2, dials: 2},
		"GOAWAY, an error":  {respond: calm, times: 1, sent: 1, dials: 1, fails: true, again: true},
		"reset":             {respond: internal, times: 1, sent: 1, dials: 1, fails: true},
		"connection ended":  {respond: hangUp, times: 1, sent: 1, dials: 1, fails: true},
		"processed":         {sent: 1, dials: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				server := serve(t, func(s *site) {
					s.TLSConfig.NextProtos = []string{"h2"}
					s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
						"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
							serverScript(c, func(f *http2.Framer, id uint32) bool {
								if sent++; sent <= test.times {
									return test.respond(f, id)
								}
								return found(f, id)
							})
						},
					}
				})
				c := clientFor(t, server.config())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				response, err := c.get(ctx, "/api?watch=true")
				if err == nil {
					defer func() { _ = response.Body.Close() }()
				}
				if (err != nil) != test.fails || errors.Is(err, errUnprocessed) != test.again {
					t.Errorf("watch: got %v, want an error %v", err, test.fails)
				}
				if dials, _ := server.seen(); dials != test.dials || sent != test.sent {
					t.Errorf("got %d requests on %d connections, want %d on %d", sent, dials, test.sent, test.dials)
				}
			})
		})
	}
}

// serverScript is a server of HTTP/2. It calls respond for each request, until that returns
// false.
func serverScript(c *tls.Conn, respond func(f *http2.Framer, id uint32) bool) {
	defer func() { _ = c.Close() }()
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	out := make(writes, 100)
	defer close(out)
	go out.flush(c)
	f := http2.NewFramer(out, c)
	_ = f.WriteSettings()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !frame.IsAck() {
				_ = f.WritePing(true, frame.Data)
			}
		case *http2.HeadersFrame:
			if !respond(f, frame.StreamID) {
				return
			}
		}
	}
}

// writes are written by another goroutine: a net.Pipe has no buffer, and both sides
// would wait for each other.
type writes chan []byte

func (w writes) Write(p []byte) (int, error) {
	w <- bytes.Clone(p)
	return len(p), nil
}

func (w writes) flush(to io.Writer) {
	for p := range w {
		_, _ = to.Write(p)
	}
}

// found responds with 200 and an open stream.
func found(f *http2.Framer, id uint32) bool {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
	return true
}
