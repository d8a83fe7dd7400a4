// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// shortStream is how long a stream lives that is worth a line if others do so, too. kube-apiserver ends streams
	// after 30 minutes or more, and proxies with a time limit mostly after a minute or less.
	shortStream = 5 * time.Minute
	// shortRow is how many streams must live so, one after the other. Fewer may have been cut by a restart.
	shortRow = 3
	// shortTime is how long that must take.
	shortTime = 10 * time.Second
	// shortPause is for how long no stream must end so before streams last again.
	shortPause = 2 * time.Minute
)

// shortStreams notices that the server, or a proxy before it, ends the streams of a gate after a short time, again and
// again. It logs one line for all of them, and one when they last again.
//
// A restart of the server ends many streams at once. So it counts generations: the streams of one were opened after the
// first of the generation before had ended.
type shortStreams struct {
	lines flowcontrol.PassiveRateLimiter // bounds those at level 0

	mu         sync.Mutex
	since      moment.Moment // when the first stream of the row ended; 0 without a row
	last       moment.Moment // when a stream last ended
	generation int           // from 1 on
	began      moment.Moment // when the first stream of the generation ended
	count      int           // its streams so far
	lived      time.Duration // the sum of their lives
	told       time.Duration // about how long streams last, as the log says; 0 if it does not
	level      int           // of that line
}

// ended is called when a stream of r has ended that nobody has ended on this side. err may be nil.
func (s *shortStreams) ended(r *Reflector, lived time.Duration, err error) {
	last, streams, level := s.add(lived)
	if streams == 0 {
		return
	}
	details := []any{"streams", streams}
	if err != nil {
		details = append(details, "err", err)
	}
	r.shortStreamsLogger(level).Info(fmt.Sprintf("Streams last about %v, then the server or a proxy ends them", last), details...)
}

// add adds a stream. If the log is to say how long streams last, add returns that, how many have ended in the
// last generation, and the level.
func (s *shortStreams) add(lived time.Duration) (last time.Duration, streams, level int) {
	if lived >= shortStream {
		return 0, 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := moment.Now()
	switch opened := now.Add(-lived); {
	case s.since == 0, now.Sub(s.last) > max(shortPause, shortStream):
		s.since, s.generation, s.began, s.count, s.lived = now, 1, now, 0, 0
	case !opened.Before(s.began):
		last, streams = max(s.lived/time.Duration(s.count), time.Millisecond), s.count
		s.generation++
		s.began, s.count, s.lived = now, 0, 0
	}
	s.last = now
	s.count++
	s.lived += lived
	isNews := s.told == 0 || 2*last < s.told // streams that last longer are no trouble
	if streams == 0 || !isNews || s.generation < shortRow || now.Sub(s.since) < shortTime {
		return 0, 0, 0
	}
	if s.told == 0 {
		s.level = 0
		if !s.lines.TryAccept() {
			s.level = 2
		}
	} else if !s.lines.TryAccept() {
		return 0, 0, 0
	}
	s.told = last
	return about(last), streams, s.level
}

// about rounds how long streams last, as people say it.
func about(d time.Duration) time.Duration {
	if d >= time.Second {
		return d.Round(time.Second)
	}
	return max(d.Round(10*time.Millisecond), 10*time.Millisecond)
}

// mayBeOver reports whether streams last again: none has ended early for a while, and one has lived for longer.
func (s *shortStreams) mayBeOver(lived time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOverLocked(lived)
}

func (s *shortStreams) isOverLocked(lived time.Duration) bool {
	return s.told > 0 && lived >= 2*s.told && s.last.Since() >= max(shortPause, 2*s.told)
}

// end ends the row, if streams last again, and returns how long it has lasted, and the level of its line.
func (s *shortStreams) end(lived time.Duration) (lasted time.Duration, level int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOverLocked(lived) {
		lasted = s.last.Sub(s.since)
		s.since, s.told = 0, 0
	}
	return lasted, s.level
}

// logLongStreams logs that streams last again, unless another session has.
func (s *session) logLongStreams() {
	defer s.life.endCall()
	if lasted, level := s.r.gate.shortStreams.end(s.began.Since()); lasted > 0 {
		s.r.shortStreamsLogger(level).Info("Streams last again", "lasted", lasted.Round(time.Second))
	}
}

// shortStreamsLogger returns the logger of lines that are about all streams.
func (r *Reflector) shortStreamsLogger(level int) klog.Logger {
	logger := klog.FromContext(r.ctx).V(level)
	if name := r.gate.name; name != "" {
		logger = logger.WithValues("gate", name)
	}
	return logger
}
