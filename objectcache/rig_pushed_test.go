// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
	"github.com/refwatch/refwatch/test/clients"
)

// pushed is a server of one Secret, and the source of it. Its streams are parked. The goroutine that calls write or
// bookmark is that of the connection.
type pushed struct {
	connection sync.Mutex

	mu      sync.Mutex
	version int // of the server
	object  int // the version of the object
	stream  *pushedStream
	opens   int
}

func (p *pushed) secret() *corev1.Secret { return testSecret(strconv.Itoa(p.object), false) }

func markOf(version int) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}}
}

func (p *pushed) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(p.version)}, Items: []corev1.Secret{*p.secret()}}, nil
}

func (p *pushed) Watch(_ context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &pushedStream{}
	if options.SendInitialEvents != nil {
		mark := markOf(p.version)
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		s.queue = []watch.Event{{Type: watch.Added, Object: p.secret()}, {Type: watch.Bookmark, Object: mark}}
	}
	p.stream = s
	p.opens++
	return s, nil
}

// write changes the object, and sends the event. It returns the version.
func (p *pushed) write() string {
	return p.push(func() watch.Event {
		p.object = p.version
		return watch.Event{Type: watch.Modified, Object: p.secret()}
	})
}

// bookmark writes another object, and sends a bookmark. It returns the version.
func (p *pushed) bookmark() string {
	return p.push(func() watch.Event { return watch.Event{Type: watch.Bookmark, Object: markOf(p.version)} })
}

func (p *pushed) push(eventOf func() watch.Event) string {
	p.connection.Lock()
	defer p.connection.Unlock()
	p.mu.Lock()
	p.version++
	version, event, stream := strconv.Itoa(p.version), eventOf(), p.stream
	p.mu.Unlock()
	if stream != nil {
		stream.push(event)
	}
	return version
}

// next returns the version of the next write.
func (p *pushed) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(p.version + 1)
}

// now returns the version of the object.
func (p *pushed) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strconv.Itoa(p.object)
}

// pushedStream is a stream that is parked once its initial events were read.
type pushedStream struct {
	mu      sync.Mutex
	queue   []watch.Event
	wake    listwatch.Waker
	waiting bool // Wake is due
	closed  bool
}

func (s *pushedStream) Next() (watch.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) == 0 {
		return watch.Event{}, io.EOF
	}
	return s.popLocked(), nil
}

func (s *pushedStream) popLocked() (event watch.Event) {
	event, s.queue = s.queue[0], s.queue[1:]
	return event
}

func (s *pushedStream) Park(wake listwatch.Waker) bool {
	s.mu.Lock()
	s.wake = wake
	s.waiting = len(s.queue) == 0
	waits := s.waiting
	s.mu.Unlock()
	if !waits {
		wake.Wake(true)
	}
	return true
}

func (s *pushedStream) TryNext() (event watch.Event, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return event, true, net.ErrClosed
	case len(s.queue) > 0:
		return s.popLocked(), true, nil
	}
	s.waiting = true
	return event, false, nil
}

func (s *pushedStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue = true, nil
	return nil
}

// push does what the goroutine of a connection does with an event.
func (s *pushedStream) push(event watch.Event) {
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

// inPushedStore runs f with a store that has a reference to the Secret.
func inPushedStore(t *testing.T, options WatchOptions, f func(*WatchStore[*corev1.Secret], *pushed)) {
	t.Helper()
	s, err := NewWatchStore(resource.Secrets(clients.Nowhere()), options)
	if err != nil {
		t.Fatal(err)
	}
	source := &pushed{version: 10, object: 5}
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.mu.Lock()
	s.ctx = ctx
	e := s.entry(testKey)
	w := s.nextWatchLocked(e)
	w.reflector = reflector.New(source, w, reflector.Options{
		Resource: "secrets", Gate: s.options.Gate, Prompt: true, Counters: &s.counters, Explain: s.explain,
	})
	e.watch.Store(w)
	w.readLocked()
	s.runLocked(w)
	s.mu.Unlock()
	f(s, source)
	for s.entry(testKey) != nil {
		for _, owner := range []string{"pod", "other-0", "other-1", "other-2"} {
			s.DeleteReference(testKey.Namespace, testKey.Name, types.UID(owner))
		}
	}
	s.background.Wait()
}
