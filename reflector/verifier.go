// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/redact"
	"github.com/refwatch/refwatch/reflector/internal/watchlist"
)

const (
	// silentAfter is how long a stream may deliver nothing, not even a bookmark, before
	// it is verified. kube-apiserver sends a bookmark about once a minute.
	silentAfter = 2 * time.Minute
	// silenceCheck is how often a verifier looks for silent streams: one look at all of
	// them costs less than a timer for each.
	silenceCheck = 30 * time.Second
)

// verifier verifies silent streams: it compares their state with a list. A watch at a
// version from the future is silent for ever. That happens without WatchList, if the
// server was rolled back between the list and the watch.
type verifier struct {
	mu       sync.Mutex
	sessions map[*session]struct{} // whose state is stored
	timer    *time.Timer
}

func (v *verifier) add(s *session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sessions[s] = struct{}{}
	if len(v.sessions) > 1 {
		return
	}
	if v.timer != nil {
		v.timer.Reset(silenceCheck)
		return
	}
	v.timer = time.AfterFunc(silenceCheck, v.check)
}

func (v *verifier) remove(s *session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sessions, s)
	if len(v.sessions) == 0 && v.timer != nil {
		v.timer.Stop()
	}
}

// all returns the sessions whose state is stored.
func (v *verifier) all() []*session {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.sessions))
}

// check begins the verification of each silent stream. It takes a goroutine of the
// session, for the one that reads the stream is blocked.
func (v *verifier) check() {
	for _, s := range v.all() {
		if s.r.progress.beginVerifying(silentAfter) && s.r.enter(s) {
			go s.verify()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.sessions) > 0 {
		v.timer.Reset(silenceCheck)
	}
}

// verify reads the selection beside the stream. A change that the stream has not
// delivered ends the session, for a consistent read.
func (s *session) verify() {
	defer s.calls.Done()
	err := s.compare()
	s.r.progress.endVerifying(err == nil)
	switch {
	case errors.Is(err, failure.ErrSilent):
		s.end(err)
	case err != nil:
		klog.FromContext(s.ctx).V(2).Info("Verification of a silent stream failed", "reflector", s.r.name, "err", err)
	default:
		s.r.onChange()
	}
}

// compare returns nil if a consistent list shows what the stream has delivered,
// ErrSilent if not, and another error if that is not known.
func (s *session) compare() (err error) {
	defer redact.Panic(&err) // of the store
	seen, lastContact := s.r.progress.seen()
	list, err := s.verifyingList()
	if err != nil {
		return err
	}
	version, err := versionOf(list)
	if err != nil {
		return err
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	if order, _ := cache.CompareVersions(version, seen); order < 0 {
		return failure.ErrSilent // the server was rolled back
	}
	same, known := s.r.store.holds(items)
	if _, contact := s.r.progress.seen(); known && !same && contact.Equal(lastContact) {
		return failure.ErrSilent // an event was lost
	}
	return nil
}

// verifyingList lists the selection once, consistently. Its failure says nothing
// about the stream.
func (s *session) verifyingList() (runtime.Object, error) {
	member := s.r.gate.admission.Join(s.r.resource, nil)
	defer member.Leave()
	if err := member.Acquire(s.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, watchlist.AnswerTimeout)
	defer cancel()
	list, err := s.listAt(ctx, "")
	if s.ctx.Err() != nil {
		return nil, s.ctx.Err()
	}
	member.Release(outcomeOf(err))
	return list, err
}
