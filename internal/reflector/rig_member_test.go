// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// tooLargeAfter is how long kube-apiserver waits for a version from the future before
// it refuses it.
const tooLargeAfter = 3 * time.Second

// member is one reflector of a crowd, and its source.
type member struct {
	*rig

	crowd    *crowd
	id       int
	resource string
	added    time.Time
	state    *recordingSlot

	mu    sync.Mutex
	ended chan struct{} // closed when the open stream ends
	cause error         // why it ended; nil: regularly
}

// recordingSlot records when complete reads reached it.
type recordingSlot struct {
	*storetest.Slot[*corev1.Secret]

	mu    sync.Mutex
	reads []time.Time
}

func (s *recordingSlot) Replace(items []any, version string) error {
	err := s.Slot.Replace(items, version)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, time.Now())
	return err
}

// firstRead returns the time of the first complete read since a moment.
func (s *recordingSlot) firstRead(since time.Time) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.reads {
		if !at.Before(since) {
			return at, true
		}
	}
	return time.Time{}, false
}

// isCurrent reports whether the member has the object of the server.
func (m *member) isCurrent() bool {
	state := m.state.Load()
	return state.Synced && state.Exists && state.Object.ResourceVersion == m.crowd.object().ResourceVersion
}

// end ends the open stream.
func (m *member) end(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cause = cause
	close(m.ended)
	m.ended = make(chan struct{})
}

func (m *member) ending() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// begin makes the first half of an answer. If it returns no error, the caller ends the
// request by crowd.opened.
func (m *member) begin(ctx context.Context, verb string, options metav1.ListOptions) (answer, error) {
	a := m.crowd.begin(m, verb, options)
	err := a.err
	if a.hangs {
		<-ctx.Done()
	} else {
		sleep(ctx, a.takes/2)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		m.crowd.opened()
	}
	return a, err
}

// List waits for a version from the future, as kube-apiserver does.
func (m *member) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	a, err := m.begin(ctx, "list", options)
	if err != nil {
		return nil, err
	}
	defer m.crowd.opened()
	switch {
	case a.stalls:
		<-ctx.Done()
	case m.crowd.isFuture(options.ResourceVersion):
		sleep(ctx, tooLargeAfter)
		err = tooLarge()
	default:
		sleep(ctx, a.takes/2)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return list(m.crowd.nextVersion(), m.crowd.object()), err
}

func (m *member) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	a, err := m.begin(ctx, "watch", options)
	if err != nil {
		return nil, err
	}
	s := &memberStream{member: m, answer: a, ctx: ctx, ended: m.ending(), closed: make(chan struct{})}
	if options.SendInitialEvents != nil {
		s.initial = s.object
		if m.crowd.isFuture(options.ResourceVersion) {
			s.initial = s.tooLarge
		}
	}
	return s, nil
}

// memberStream counts as opening until its initial events are over.
type memberStream struct {
	*member

	answer  answer
	ctx     context.Context
	initial func() (watch.Event, error) // the next initial event; nil: they are over
	open    sync.Once
	close   sync.Once
	ended   <-chan struct{}
	closed  chan struct{}
}

func (s *memberStream) endWith(ctx context.Context) { s.ctx = ctx }

func (s *memberStream) Next() (watch.Event, error) {
	if s.initial != nil {
		return s.initial()
	}
	s.open.Do(s.crowd.opened)
	return s.waitForEnd()
}

func (s *memberStream) tooLarge() (watch.Event, error) {
	if !sleep(s.ctx, tooLargeAfter) {
		return watch.Event{}, s.ctx.Err()
	}
	return errorEvent(tooLargeStatus()), nil
}

func (s *memberStream) object() (watch.Event, error) {
	if s.answer.stalls {
		return s.waitForEnd()
	}
	if !sleep(s.ctx, s.answer.takes/2) {
		return watch.Event{}, s.ctx.Err()
	}
	s.initial = s.bookmark
	return event(watch.Added, s.crowd.object()), nil
}

func (s *memberStream) bookmark() (watch.Event, error) {
	s.initial = nil
	s.open.Do(s.crowd.opened)
	if s.answer.lives > 0 {
		time.AfterFunc(s.answer.lives, func() { _ = s.Close() })
	}
	return bookmark(s.crowd.nextVersion(), true), nil
}

func (s *memberStream) waitForEnd() (watch.Event, error) {
	select {
	case <-s.ctx.Done():
		return watch.Event{}, s.ctx.Err()
	case <-s.closed:
	case <-s.ended:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.cause != nil {
			return watch.Event{}, s.cause
		}
	}
	return watch.Event{}, io.EOF
}

func (s *memberStream) Close() error {
	s.open.Do(s.crowd.opened)
	s.close.Do(func() { close(s.closed) })
	return nil
}

// sleep reports whether all of the time passed before ctx ended. Its timer has no
// channel: many of those, due at the same moment, are more than the race detector can
// take (go.dev/issue/78156).
func sleep(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

// These bounds are promised to a healthy member, whatever happens to others of its gate.
const (
	soonAwaited = time.Second     // a caller waits for it
	soon        = 5 * time.Second // no caller waits
)

// wantSynced checks that members were synced within a time after they were added.
func (c *crowd) wantSynced(ids []int, limit time.Duration, about string) {
	c.t.Helper()
	c.wantRead(ids, time.Time{}, limit, about)
}

// wantRead checks that members had a complete read within a time, counted from a
// moment, or from when they were added if that was later.
func (c *crowd) wantRead(ids []int, since time.Time, limit time.Duration, about string) {
	c.t.Helper()
	took, never := c.took(ids, since)
	late := 0
	for _, d := range took {
		if d > limit {
			late++
		}
	}
	if late+never > 0 {
		c.t.Errorf("%s: got %d of %d late, the last after %v, and %d never; want all within %v", about, late, len(ids), slices.Max(took), never, limit)
		return
	}
	c.t.Logf("%s: %d, the last after %v", about, len(took), slices.Max(took))
}

// took returns how long members took to be read, and how many never were. There is
// always one time.
func (c *crowd) took(ids []int, since time.Time) (all []time.Duration, never int) {
	for _, id := range ids {
		m, from := c.members[id], since
		if m.added.After(from) {
			from = m.added
		}
		if at, ok := m.state.firstRead(from); ok {
			all = append(all, at.Sub(from))
		} else {
			never++
		}
	}
	if len(all) == 0 {
		all = []time.Duration{0}
	}
	return all, never
}
