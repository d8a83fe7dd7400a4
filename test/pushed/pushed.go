// SPDX-License-Identifier: Apache-2.0

// Package pushed has a source of one Secret whose streams are parked, for tests of what happens on the goroutine of a
// connection: the goroutine that calls [Server.Write] or [Server.Bookmark] is that one.
package pushed

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Server is a source of one Secret, and the server of it.
type Server struct {
	secret func(version string) *corev1.Secret

	connection sync.Mutex // held by the goroutine of the connection

	mu      sync.Mutex
	version int // of the server
	object  int // the version of the Secret
	stream  *stream
	opens   int
	fails   int
}

var _ listwatch.Source = (*Server)(nil)

var errFails = errors.New("the server was told to fail")

// New returns a server whose Secret has version 5. It is at version 10. secret returns the Secret in a version.
func New(secret func(version string) *corev1.Secret) *Server {
	return &Server{secret: secret, version: 10, object: 5}
}

// FailNext makes the next request fail.
func (s *Server) FailNext() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = 1
}

// Versions returns the versions of the Secret and of the server.
func (s *Server) Versions() (secret, server int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.object, s.version
}

// Opens returns how many streams were opened.
func (s *Server) Opens() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opens
}

// Write changes the Secret, and sends the event.
func (s *Server) Write() {
	s.push(func() watch.Event {
		s.object = s.version
		return watch.Event{Type: watch.Modified, Object: s.secretLocked()}
	})
}

// Bookmark changes another object, and sends a bookmark.
func (s *Server) Bookmark() {
	s.push(func() watch.Event { return watch.Event{Type: watch.Bookmark, Object: s.markLocked()} })
}

func (s *Server) push(eventOf func() watch.Event) {
	s.connection.Lock()
	defer s.connection.Unlock()
	s.mu.Lock()
	s.version++
	event, stream := eventOf(), s.stream
	s.mu.Unlock()
	if stream != nil {
		stream.push(event)
	}
}

func (s *Server) secretLocked() *corev1.Secret { return s.secret(strconv.Itoa(s.object)) }

func (s *Server) markLocked() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(s.version)}}
}

func (s *Server) failsLocked() bool {
	if s.fails == 0 {
		return false
	}
	s.fails--
	return true
}

// List implements listwatch.Source.
func (s *Server) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failsLocked() {
		return nil, errFails
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}
	return &corev1.SecretList{ListMeta: meta, Items: []corev1.Secret{*s.secretLocked()}}, nil
}

// Watch implements listwatch.Source.
func (s *Server) Watch(_ context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failsLocked() {
		return nil, errFails
	}
	opened := &stream{}
	if options.SendInitialEvents != nil {
		end := s.markLocked()
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		opened.queue = []watch.Event{{Type: watch.Added, Object: s.secretLocked()}, {Type: watch.Bookmark, Object: end}}
	} else if from, _ := strconv.Atoi(options.ResourceVersion); from < s.object {
		opened.queue = []watch.Event{{Type: watch.Modified, Object: s.secretLocked()}}
	}
	s.stream = opened
	s.opens++
	return opened, nil
}

// stream is parked once its initial events were read.
type stream struct {
	mu      sync.Mutex
	queue   []watch.Event
	wake    listwatch.Waker
	waiting bool // Wake is due
	closed  bool
}

var _ listwatch.Parkable = (*stream)(nil)

// Next implements listwatch.Stream.
func (s *stream) Next() (event watch.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) == 0 {
		return event, io.EOF
	}
	return s.popLocked(), nil
}

func (s *stream) popLocked() (event watch.Event) {
	event, s.queue = s.queue[0], s.queue[1:]
	return event
}

// Park implements listwatch.Parkable.
func (s *stream) Park(wake listwatch.Waker) bool {
	s.mu.Lock()
	s.wake, s.waiting = wake, len(s.queue) == 0
	waits := s.waiting
	s.mu.Unlock()
	if !waits {
		wake.Wake(true)
	}
	return true
}

// TryNext implements listwatch.Parkable.
func (s *stream) TryNext() (event watch.Event, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return event, true, io.ErrClosedPipe
	case len(s.queue) > 0:
		return s.popLocked(), true, nil
	}
	s.waiting = true
	return event, false, nil
}

// Close implements listwatch.Stream.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue = true, nil
	return nil
}

// push does what the goroutine of a connection does with an event.
func (s *stream) push(event watch.Event) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	if event.Type == watch.Bookmark && s.waiting && len(s.queue) == 0 {
		s.mu.Unlock()
		if s.wake.TakeBookmark(event.Object.(*corev1.Secret).ResourceVersion) {
			return
		}
		s.mu.Lock()
	}
	s.queue = append(s.queue, event)
	wakes := s.waiting
	s.waiting = false
	s.mu.Unlock()
	if wakes {
		s.wake.Wake(true)
	}
}
