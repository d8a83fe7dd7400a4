// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// script is an HTTP/2 server without rules: it sends the frames that a test asks for,
// right or wrong, and records those of the client. Only newScript's goroutine reads;
// everything else happens on the goroutine of the test.
//
//	s.accept()                        // SETTINGS, and the ack of the client's
//	id := s.request("/a")             // waits for the client's HEADERS
//	s.header(id, ":status", "200")
//	s.data(id, "text")
//	s.endData(id, "last")             // the same with END_STREAM
//	s.half(5, func() { s.ping(1) })   // the first five bytes of a frame
type script struct {
	t      testing.TB
	conn   net.Conn
	bubble bool // the test runs in a bubble: all that can happen has happened after a Wait

	out     bytes.Buffer
	framer  *http2.Framer // writes to out
	headers bytes.Buffer
	encoder *hpack.Encoder // writes to headers
	holding bool           // half collects frames in out
	pings   uint64         // how many PINGs answersPing has sent

	announced []http2.Setting // by the client
	decoder   *hpack.Decoder  // of the client's headers

	mu   sync.Mutex
	news chan struct{} // has an element when log or ended has changed
	log  []frame
	// drop reports the frames that are not recorded, such as the answers to a flood.
	drop func(frame) bool
	// ended is the error of the first read that failed.
	ended error
}

// frame is a frame of the client, or its connection preface.
type frame struct {
	http2.FrameHeader
	fields    []hpack.HeaderField
	settings  []http2.Setting
	code      http2.ErrCode
	increment uint32
	ping      [8]byte
	reported  bool // by sent
}

// String is the type of the frame, and what distinguishes it from others.
func (f frame) String() string {
	s := f.Type.String()
	if f.StreamID != 0 {
		s += fmt.Sprintf(" %d", f.StreamID)
	}
	switch f.Type {
	case http2.FrameRSTStream, http2.FrameGoAway:
		s += " " + f.code.String()
	case http2.FrameWindowUpdate:
		s += fmt.Sprintf(" %d", f.increment)
	case http2.FramePing, http2.FrameSettings:
		if f.Flags.Has(http2.FlagPingAck) { // which is that of SETTINGS as well
			s += " ack"
		}
	}
	return s
}

func newScript(t testing.TB, conn net.Conn, bubble bool) *script {
	s := newEncoder()
	s.t, s.conn, s.bubble, s.news = t, conn, bubble, make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.end(s.record())
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

// newEncoder returns a script without a connection, which encodes frames only.
func newEncoder() *script {
	s := &script{decoder: hpack.NewDecoder(4096, nil)}
	s.framer = http2.NewFramer(&s.out, nil)
	s.framer.AllowIllegalWrites = true
	s.encoder = hpack.NewEncoder(&s.headers)
	return s
}

// record reads the frames of the client until the connection ends.
func (s *script) record() error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(s.conn, preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return fmt.Errorf("got connection preface %q", preface)
	}
	framer := http2.NewFramer(nil, s.conn)
	framer.ReadMetaHeaders = s.decoder
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		s.add(toFrame(f))
	}
}

func toFrame(f http2.Frame) frame {
	r := frame{FrameHeader: f.Header()}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		r.fields = append(r.fields, f.Fields...)
	case *http2.SettingsFrame:
		_ = f.ForeachSetting(func(v http2.Setting) error { r.settings = append(r.settings, v); return nil })
	case *http2.RSTStreamFrame:
		r.code = f.ErrCode
	case *http2.GoAwayFrame:
		r.code = f.ErrCode
	case *http2.WindowUpdateFrame:
		r.increment = f.Increment
	case *http2.PingFrame:
		r.ping = f.Data
	}
	return r
}

func (s *script) add(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drop == nil || !s.drop(f) {
		s.log = append(s.log, f)
	}
	s.wakeLocked()
}

func (s *script) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = err
	s.wakeLocked()
}

func (s *script) wakeLocked() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// await returns when done, called with s.mu held, returns true. In a bubble it returns
// false as soon as everything waits, and over a socket after ten seconds.
func (s *script) await(done func() bool) bool {
	check := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return done()
	}
	if s.bubble {
		synctest.Wait()
		return check()
	}
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for !check() {
		select {
		case <-s.news:
		case <-limit.C:
			return check()
		}
	}
	return true
}

// frames returns the frames so far that match, after the client has come to rest.
func (s *script) frames(match func(frame) bool) (found []frame) {
	s.await(func() bool { return true })
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.log {
		if match(f) {
			found = append(found, f)
		}
	}
	return found
}

// sent returns the frames since the last call, after the client has come to rest.
func (s *script) sent() (texts []string) {
	s.await(func() bool { return true })
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.log {
		if f := &s.log[i]; !f.reported {
			texts, f.reported = append(texts, f.String()), true
		}
	}
	return texts
}

// take waits for the first frame that matches, and removes it from the log.
func (s *script) take(what string, match func(frame) bool) (f frame) {
	s.t.Helper()
	found := s.await(func() bool {
		for i := range s.log {
			if match(s.log[i]) {
				f = s.log[i]
				s.log = append(s.log[:i:i], s.log[i+1:]...)
				return true
			}
		}
		return false
	})
	if !found {
		s.t.Fatalf("got no %s from the client, but %v", what, s.summary())
	}
	return f
}

// closed waits for the end of the client's side of the connection.
func (s *script) closed() bool { return s.await(func() bool { return s.ended != nil }) }

func (s *script) summary() (frames []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.log {
		frames = append(frames, f.String())
	}
	return append(frames, fmt.Sprintf("(end: %v)", s.ended))
}
