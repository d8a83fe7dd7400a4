// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/refwatch/refwatch/internal/h2"
)

// stream takes the lines of one body, as a Receiver or by a goroutine that reads.
type stream struct {
	line  func(string) // is called for each line
	body  io.ReadCloser
	ended chan struct{} // closed at the end of the body

	partial bytes.Buffer // a line that is not complete
	err     error        // io.EOF at the regular end; for readers of ended
}

// receive begins to take the body.
func (c client) receive(body io.ReadCloser, line func(string)) (*stream, error) {
	s := &stream{line: line, body: body, ended: make(chan struct{})}
	parked, isOurs := body.(h2.Body)
	switch {
	case isOurs != c.own:
		_ = body.Close()
		return nil, fmt.Errorf("%s: got a body of type %T", c.name, body)
	case c.receives:
		parked.Detach()
		parked.Receive(s)
	default:
		go s.read()
	}
	return s, nil
}

func (s *stream) read() {
	p := make([]byte, 4<<10)
	for {
		n, err := s.body.Read(p)
		s.Data(p[:n])
		if err != nil {
			s.End(err)
			return
		}
	}
}

// Data implements h2.Receiver.
func (s *stream) Data(p []byte) int {
	for rest := p; len(rest) > 0; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		s.partial.Write(line)
		if complete {
			s.line(s.partial.String())
			s.partial.Reset()
		}
		rest = after
	}
	return len(p)
}

// End implements h2.Receiver.
func (s *stream) End(err error) {
	s.err = err
	close(s.ended)
}

// close ends the stream. No line is passed on when it has returned.
func (s *stream) close() {
	_ = s.body.Close()
	if _, receives := s.body.(h2.Body); !receives {
		<-s.ended
	}
}

// tally counts, for each line, the streams that have received it.
type tally struct {
	mu      sync.Mutex
	counts  map[string]int
	changed chan struct{} // closed at the next change
}

func newTally() *tally { return &tally{counts: map[string]int{}, changed: make(chan struct{})} }

func (t *tally) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[line]++
	close(t.changed)
	t.changed = make(chan struct{})
}

// get returns how many streams have received the line, and a channel that is closed at the next change.
func (t *tally) get(line string) (int, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts[line], t.changed
}
