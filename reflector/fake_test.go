// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

var key = types.NamespacedName{Namespace: "shop", Name: "tls"}

func secret(version string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "one", ResourceVersion: version},
		Data:       map[string][]byte{"password": []byte(canary)},
	}
}

// canary is what must never be seen in a log or an error.
const canary = "canary-canary-canary"

func event(kind watch.EventType, object runtime.Object) watch.Event {
	return watch.Event{Type: kind, Object: object}
}

// bookmark is a bookmark; the one that ends the initial events if end is set.
func bookmark(version string, end bool) watch.Event {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if end {
		object.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return event(watch.Bookmark, object)
}

// state is what a WatchList begins with when the object is there.
func state(object *corev1.Secret, version string) []watch.Event {
	return []watch.Event{event(watch.Added, object), bookmark(version, true)}
}

func list(version string, items ...corev1.Secret) *corev1.SecretList {
	return &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}, Items: items}
}

// request is one that a fakeSource saw.
type request struct {
	verb    string
	options metav1.ListOptions
	at      time.Time
}

// fakeSource answers from functions and records what was asked. Without onList
// its lists fail.
type fakeSource struct {
	onList  func(metav1.ListOptions) (runtime.Object, error)
	onWatch func(metav1.ListOptions) (listwatch.Stream, error)

	mu       sync.Mutex
	requests []request
}

func (f *fakeSource) record(verb string, options metav1.ListOptions) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request{verb, options, time.Now()})
}

func (f *fakeSource) seen() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fakeSource) List(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	f.record("list", options)
	if f.onList == nil {
		return nil, errors.New("there are no lists")
	}
	return f.onList(options)
}

func (f *fakeSource) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	f.record("watch", options)
	stream, err := f.onWatch(options)
	if fake, ok := stream.(interface{ follow(context.Context) }); ok && err == nil {
		fake.follow(ctx)
	}
	return stream, err
}

// listOnly is a source that says it cannot do WatchList.
type listOnly struct{ *fakeSource }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// fakeStream yields its events, then what is sent, until it is closed, its
// context ends, or finish gives it an end.
type fakeStream struct {
	ctx    context.Context
	events chan watch.Event
	ended  chan error
	once   sync.Once
	closed chan struct{}
}

func newStream(events ...watch.Event) *fakeStream {
	s := &fakeStream{events: make(chan watch.Event, 100), ended: make(chan error, 1), closed: make(chan struct{})}
	for _, e := range events {
		s.events <- e
	}
	return s
}

func (s *fakeStream) finish(err error) *fakeStream {
	s.ended <- err
	return s
}

func (s *fakeStream) follow(ctx context.Context) { s.ctx = ctx }

func (s *fakeStream) Next() (watch.Event, error) {
	select {
	case e := <-s.events:
		return e, nil
	default:
	}
	select {
	case e := <-s.events:
		return e, nil
	case err := <-s.ended:
		return watch.Event{}, err
	case <-s.closed:
		return watch.Event{}, io.EOF
	case <-s.ctx.Done():
		return watch.Event{}, s.ctx.Err()
	}
}

func (s *fakeStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// streams serves one stream after the other; the last one for ever after.
func streams(all ...func() (listwatch.Stream, error)) func(metav1.ListOptions) (listwatch.Stream, error) {
	next := 0
	return func(metav1.ListOptions) (listwatch.Stream, error) {
		open := all[min(next, len(all)-1)]
		next++
		return open()
	}
}

func opens(events ...watch.Event) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { return newStream(events...), nil }
}

func fails(err error) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { return nil, err }
}

// breaks is a stream that brings events and then ends with err.
func breaks(err error, events ...watch.Event) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { return newStream(events...).finish(err), nil }
}

// rig is a reflector at work on a slot.
type rig struct {
	*reflector.Reflector

	gate   *reflector.Gate
	slot   *cache.Slot[*corev1.Secret]
	source *fakeSource
	stop   func() // ends Run and waits for it
	wait   func() // until Run has returned
}

// start runs a reflector inside a synctest bubble.
func start(t *testing.T, source listwatch.Source, options reflector.Options) *rig {
	t.Helper()
	slot := cache.NewSlot(key, cache.SlotOptions[*corev1.Secret]{})
	options.ClientGoReflector = clientGo
	r := &rig{Reflector: reflector.New(source, slot, options), slot: slot, gate: options.Gate}
	switch source := source.(type) {
	case *fakeSource:
		r.source = source
	case listOnly:
		r.source = source.fakeSource
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.wait = func() { <-done }
	r.stop = func() { cancel(); r.wait() }
	t.Cleanup(r.stop)
	synctest.Wait()
	return r
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
