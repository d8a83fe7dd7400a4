// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector/listwatch"
)

// tooLargeAfter is how long kube-apiserver waits for a version from the future
// before it refuses it.
const tooLargeAfter = 3 * time.Second

// begin makes the first half of an answer. The caller ends the request, unless
// there is an error.
func (m *guest) begin(ctx context.Context, verb string, options metav1.ListOptions) (reply, error) {
	m.crowd.begin(m.id, verb, options)
	how := m.crowd.reply(m.id, m.kind, options.SendInitialEvents != nil)
	err := how.err
	if how.hangs {
		<-ctx.Done()
	} else {
		sleep(ctx, how.takes/2)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		m.crowd.fleet.end()
	}
	return how, err
}

// List waits for a version from the future as kube-apiserver does.
func (m *guest) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	how, err := m.begin(ctx, "list", options)
	if err != nil {
		return nil, err
	}
	defer m.crowd.fleet.end()
	switch {
	case how.mute:
		<-ctx.Done()
	case m.crowd.future(options.ResourceVersion):
		sleep(ctx, tooLargeAfter)
		err = tooLarge()
	default:
		sleep(ctx, how.takes/2)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return list(m.crowd.answered(), *m.object()), err
}

// Watch opens a stream.
func (m *guest) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	how, err := m.begin(ctx, "watch", options)
	if err != nil {
		return nil, err
	}
	s := &guestStream{guest: m, how: how, ctx: ctx, cut: m.cutting(), closed: make(chan struct{})}
	if options.SendInitialEvents != nil {
		s.initial = s.state
		if m.crowd.future(options.ResourceVersion) {
			s.initial = s.tooLarge
		}
	}
	return s, nil
}

// guestStream counts as opening until it has told the state.
type guestStream struct {
	*guest

	how     reply
	ctx     context.Context
	initial func() (watch.Event, error) // the next of the initial events; nil: they are over
	told    sync.Once
	close   sync.Once
	cut     <-chan struct{}
	closed  chan struct{}
}

func (s *guestStream) Next() (watch.Event, error) {
	if s.initial != nil {
		return s.initial()
	}
	s.told.Do(s.crowd.fleet.end)
	return s.rest()
}

func (s *guestStream) tooLarge() (watch.Event, error) {
	sleep(s.ctx, tooLargeAfter)
	if s.ctx.Err() != nil {
		return watch.Event{}, s.ctx.Err()
	}
	var status apierrors.APIStatus
	_ = errors.As(tooLarge(), &status)
	answer := status.Status()
	return event(watch.Error, &answer), nil
}

func (s *guestStream) state() (watch.Event, error) {
	if s.how.mute {
		return s.rest()
	}
	sleep(s.ctx, s.how.takes/2)
	if s.ctx.Err() != nil {
		return watch.Event{}, s.ctx.Err()
	}
	s.initial = func() (watch.Event, error) {
		s.initial = nil
		if s.how.lives > 0 {
			time.AfterFunc(s.how.lives, func() { _ = s.Close() })
		}
		return bookmark(s.crowd.answered(), true), nil
	}
	return event(watch.Added, s.object()), nil
}

// rest waits for the end.
func (s *guestStream) rest() (watch.Event, error) {
	select {
	case <-s.ctx.Done():
		return watch.Event{}, s.ctx.Err()
	case <-s.closed:
	case <-s.cut:
		s.guest.mu.Lock()
		defer s.guest.mu.Unlock()
		if s.why != nil {
			return watch.Event{}, s.why
		}
	}
	return watch.Event{}, io.EOF
}

func (s *guestStream) Close() error {
	s.told.Do(s.crowd.fleet.end)
	s.close.Do(func() { close(s.closed) })
	return nil
}
