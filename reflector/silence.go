// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// silentAfter is how long a stream may bring nothing, not even a bookmark,
	// before it is verified. kube-apiserver sends a bookmark about once a minute.
	silentAfter = 2 * time.Minute
	// silenceCheck is how often a gate looks for silent streams: one look at all
	// of them costs less than a timer for each.
	silenceCheck = 30 * time.Second
)

// silence watches for streams that bring nothing.
type silence struct {
	mu      sync.Mutex
	streams map[*Reflector]struct{}
	timer   *time.Timer
}

// add has the silence of a reflector's stream watched.
func (s *silence) add(r *Reflector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[r] = struct{}{}
	if len(s.streams) > 1 {
		return
	}
	if s.timer != nil {
		s.timer.Reset(silenceCheck)
		return
	}
	s.timer = time.AfterFunc(silenceCheck, s.check)
}

// remove ends what add has begun.
func (s *silence) remove(r *Reflector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, r)
	if len(s.streams) == 0 && s.timer != nil {
		s.timer.Stop()
	}
}

// all returns the reflectors whose stream is open.
func (s *silence) all() []*Reflector {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.streams))
}

func (s *silence) check() {
	for _, r := range s.all() {
		r.verifyIfSilent()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.streams) > 0 {
		s.timer.Reset(silenceCheck)
	}
}
