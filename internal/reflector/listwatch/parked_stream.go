// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"io"
	"net"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/h2"
)

// This file is the parked life of a restStream. The connection's goroutine adds what
// arrives to frames. TryNext decodes, without the lock: Data waits for a decoder only if
// the Waker calls TryNext. A stream whose frames are all decoded holds no buffer. A
// bookmark that nothing precedes is not added: see bookmarks.
//
// The server gets credit at once for the bytes of a frame that is incomplete: a frame
// may be larger than the window of the stream. It gets none while complete frames wait
// for TryNext, so that a slow receiver makes its own stream wait: at most one frame and
// one window of it are in memory.

// Park implements Parkable.
func (s *restStream) Park(wake Waker) bool {
	body, ok := s.body.(h2.Body)
	if !ok {
		return false
	}
	s.startWaiting(wake)
	body.Detach()
	body.Receive((*receiver)(s))
	s.wakeIfReady()
	return true
}

// startWaiting takes over what the decoder of Next has read ahead.
func (s *restStream) startWaiting(wake Waker) {
	var ahead []byte
	if s.json != nil {
		ahead, _ = io.ReadAll(s.json.decoder.Buffered()) // it reads from memory and cannot fail
		s.json = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake, s.waiting, s.arrived = wake, true, nil
	s.addLocked(ahead)
	if s.frames != nil {
		s.frames.owed = 0 // Read has given the credit
	}
}

// TryNext implements Parkable.
func (s *restStream) TryNext() (event watch.Event, ok bool, err error) {
	frame, end, ok := s.take()
	if !ok {
		return watch.Event{}, false, nil
	}
	event, err = s.decodeTaken(frame, end)
	return event, true, err
}

// take returns the next complete frame, or the end of the stream and the incomplete
// frame in front of it. The bytes are valid until release.
func (s *restStream) take() (frame []byte, end error, ok bool) { //nolint:revive // end is a result
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		end, ok = net.ErrClosed, true
	case s.frames != nil:
		frame, end, ok = s.frames.next()
	}
	s.decoding, s.waiting = ok, !ok
	return frame, end, ok
}

func (s *restStream) decodeTaken(frame []byte, end error) (watch.Event, error) {
	defer s.release()
	if end != nil {
		return watch.Event{}, s.endError(frame, end)
	}
	event, err := s.decodeFrame(frame)
	if err == nil {
		s.learnBookmark(frame, event)
	}
	return event, err
}

func (s *restStream) decodeFrame(frame []byte) (watch.Event, error) {
	if s.format == formatJSON {
		return s.decodeJSON(frame)
	}
	return s.decodeProtobuf(frame)
}

// endError returns the error that Next returns for an incomplete frame and the end of
// the body after it.
func (s *restStream) endError(rest []byte, end error) error {
	body := io.MultiReader(bytes.NewReader(rest), endOfBody{end})
	reader := &restStream{body: io.NopCloser(body), source: s.source, format: s.format}
	if s.format == formatJSON {
		reader.json = newJSONBody(body) // the rest may be shorter than what Next needs to find the format
	}
	_, err := reader.Next()
	return err
}

// endOfBody is a body that has ended.
type endOfBody struct{ err error }

func (e endOfBody) Read([]byte) (int, error) { return 0, e.err }

// release ends the use of what take has returned.
func (s *restStream) release() {
	s.mu.Lock()
	s.decoding = false
	credit := 0
	if s.frames != nil {
		credit = s.frames.worked()
	}
	done := s.detachLocked()
	s.mu.Unlock()

	done.put()
	if credit > 0 {
		s.body.(h2.Body).Consumed(credit)
	}
}

// dropFrames drops what waits for TryNext.
func (s *restStream) dropFrames() {
	s.mu.Lock()
	s.closed = true
	dropped := s.detachLocked()
	s.mu.Unlock()
	dropped.put()
}

// detachLocked returns frames if no one needs them any more, and nil otherwise.
func (s *restStream) detachLocked() (unused *frames) {
	if s.frames == nil || s.decoding || !s.closed && !s.frames.empty() {
		return nil
	}
	unused, s.frames = s.frames, nil
	return unused
}

// addLocked adds bytes of the body. It returns how many of them the server may send
// again at once.
func (s *restStream) addLocked(p []byte) (consumed int) {
	if s.closed || len(p) == 0 {
		return len(p)
	}
	if s.format == formatUnknown {
		s.format = formatOf(p[0])
	}
	if s.frames == nil {
		if s.format == formatJSON && len(trimBlanks(p)) == 0 {
			return len(p)
		}
		s.frames = newFrames()
	}
	return s.frames.add(p, s.format)
}

// smallFrames is how many bytes of frames other streams of the connection may wait for.
const smallFrames = 16 << 10

// wakeIfReady calls Wake if TryNext has something to return and nobody knows it.
func (s *restStream) wakeIfReady() {
	s.mu.Lock()
	wake, small := s.waiting && s.frames != nil && s.frames.ready(), false
	if wake {
		s.waiting = false
		small = s.frames.end == nil && len(s.frames.data) <= smallFrames
	}
	s.mu.Unlock()
	if wake {
		s.wake.Wake(small)
	}
}

// receiver is the parked restStream, as its body sees it.
type receiver restStream

// Data implements h2.Receiver.
func (r *receiver) Data(p []byte) (consumed int) {
	s := (*restStream)(r)
	if s.takeBookmark(p) {
		return len(p)
	}
	s.mu.Lock()
	consumed = s.addLocked(p)
	s.mu.Unlock()
	s.wakeIfReady()
	return consumed
}

// End implements h2.Receiver.
func (r *receiver) End(err error) {
	s := (*restStream)(r)
	s.mu.Lock()
	if !s.closed {
		if s.frames == nil {
			s.frames = newFrames()
		}
		s.frames.fail(err)
	}
	s.mu.Unlock()
	s.wakeIfReady()
}
