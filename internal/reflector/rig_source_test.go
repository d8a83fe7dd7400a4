// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// canary is the data of every object. It must appear in no log and no error.
const canary = "canary-canary-canary"

// key identifies the object of most tests.
var key = types.NamespacedName{Namespace: "shop", Name: "tls"}

func secret(version string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "one", ResourceVersion: version},
		Data:       map[string][]byte{"password": []byte(canary)},
	}
}

// otherSecret is an object that does not belong to the selection.
func otherSecret(version string) *corev1.Secret {
	other := secret(version)
	other.Name = "other"
	return other
}

func event(kind watch.EventType, object runtime.Object) watch.Event {
	return watch.Event{Type: kind, Object: object}
}

// bookmark is a bookmark. If end is set, it ends the initial events.
func bookmark(version string, end bool) watch.Event {
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if end {
		object.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return event(watch.Bookmark, object)
}

// state returns the initial events of a WatchList of an object that exists.
func state(object *corev1.Secret, version string) []watch.Event {
	return []watch.Event{event(watch.Added, object), bookmark(version, true)}
}

func list(version string, items ...*corev1.Secret) *corev1.SecretList {
	all := &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, item := range items {
		all.Items = append(all.Items, *item)
	}
	return all
}

// resource is the resource of all objects.
var resource = schema.GroupResource{Resource: "secrets"}

// errDown is the error of a server that cannot be reached.
var errDown error = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func forbidden() error            { return apierrors.NewForbidden(resource, key.Name, errors.New("no")) }
func unauthorized() error         { return apierrors.NewUnauthorized("the token has expired") }
func unavailable() error          { return apierrors.NewServiceUnavailable("starting") }
func unreadable() error           { return apierrors.NewInternalError(errors.New("cannot be decrypted")) }
func throttled(seconds int) error { return apierrors.NewTooManyRequests("slow down", seconds) }

// refusal is the answer of a server or a proxy with a code.
func refusal(code int) error {
	return apierrors.NewGenericServerResponse(code, http.MethodGet, schema.GroupResource{}, "", "no", 0, true)
}

// tooLarge is the answer to a read at a version from the future.
func tooLarge() error { return tooLargeStatus() }

func tooLargeStatus() *apierrors.StatusError {
	err := apierrors.NewTimeoutError("Too large resource version: 9, current: 5", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

// errorEvent is the event in which a server sends an error.
func errorEvent(err *apierrors.StatusError) watch.Event { return event(watch.Error, &err.ErrStatus) }

// undecoded is the event that client-go delivers in place of one that it cannot
// decode.
func undecoded(text string) watch.Event {
	return event(watch.Error, apierrors.NewClientErrorReporter(500, http.MethodGet, "ClientWatchDecoding").AsObject(errors.New(text)))
}

// request is one that a server received.
type request struct {
	id      int // of the member of a crowd
	verb    string
	options metav1.ListOptions
	at      time.Time
}

// kind returns "list", "watch" or "WatchList".
func (r request) kind() string {
	if r.options.SendInitialEvents != nil {
		return "WatchList"
	}
	return r.verb
}

// gaps returns the times between requests.
func gaps(requests []request) (all []time.Duration) {
	for i := 1; i < len(requests); i++ {
		all = append(all, requests[i].at.Sub(requests[i-1].at))
	}
	return all
}

// attempts returns the first request of each attempt: a list right after a refused
// WatchList belongs to the attempt of that WatchList.
func attempts(requests []request) (first []request) {
	for i, r := range requests {
		if i == 0 || r.verb == requests[i-1].verb || r.at.After(requests[i-1].at) {
			first = append(first, r)
		}
	}
	return first
}

// The answers of a scripted server: to a watch, and to a list.
type (
	watchAnswer = func() (listwatch.Stream, error)
	listAnswer  = func() (runtime.Object, error)
)

// fakeSource is a scripted server. It records the requests. Without onList its lists
// fail.
type fakeSource struct {
	onList  func(metav1.ListOptions) (runtime.Object, error)
	onWatch func(metav1.ListOptions) (listwatch.Stream, error)

	mu       sync.Mutex
	requests []request
}

// watching is a source that gives these answers to watches.
func watching(answers ...watchAnswer) *fakeSource { return &fakeSource{onWatch: streams(answers...)} }

// withoutWatchList is a source of a server that gives an answer of its own to a
// WatchList, and serves lists and plain watches.
func withoutWatchList(watchList watchAnswer) *fakeSource {
	return &fakeSource{
		onList: lists(brings("7", secret("5"))),
		onWatch: func(options metav1.ListOptions) (listwatch.Stream, error) {
			if options.SendInitialEvents != nil {
				return watchList()
			}
			return newStream(), nil
		},
	}
}

func (f *fakeSource) fake() *fakeSource { return f }

func (f *fakeSource) record(verb string, options metav1.ListOptions) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request{verb: verb, options: options, at: time.Now()})
}

// seen returns all requests.
func (f *fakeSource) seen() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// asked returns the kind and the version of each request, like "WatchList 7".
func (f *fakeSource) asked() (all []string) {
	for _, r := range f.seen() {
		all = append(all, r.kind()+" "+r.options.ResourceVersion)
	}
	return all
}

// count returns how many requests of a kind there were.
func (f *fakeSource) count(kind string) (count int) {
	for _, r := range f.seen() {
		if r.kind() == kind {
			count++
		}
	}
	return count
}

func (f *fakeSource) List(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	f.record("list", options)
	if f.onList == nil {
		return nil, errors.New("no list is scripted")
	}
	return f.onList(options)
}

func (f *fakeSource) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	f.record("watch", options)
	stream, err := f.onWatch(options)
	if fake, ok := stream.(interface{ endWith(context.Context) }); ok && err == nil {
		fake.endWith(ctx)
	}
	return stream, err
}

// noWatchList marks a source that does not support WatchList.
type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// listOnly is a scripted server whose client does not support WatchList.
type listOnly struct {
	*fakeSource
	noWatchList
}

func listing(source *fakeSource) listOnly { return listOnly{fakeSource: source} }

// blocking is a source whose calls last until their context ends.
type blocking struct{}

func (blocking) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (blocking) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// blockingLists is blocking for a client that does not support WatchList.
type blockingLists struct {
	blocking
	noWatchList
}

// fakeStream delivers its events, and then those that are sent, until it is closed,
// its context ends, or finish ends it.
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

// answer is the answer to a watch that opens s.
func (s *fakeStream) answer() (listwatch.Stream, error) { return s, nil }

// finish ends the stream once its events have been read.
func (s *fakeStream) finish(err error) *fakeStream {
	s.ended <- err
	return s
}

func (s *fakeStream) endWith(ctx context.Context) { s.ctx = ctx }

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

// bound returns the stream, which ends with the context.
func bound(ctx context.Context, stream *fakeStream) *fakeStream {
	stream.endWith(ctx)
	return stream
}

func (s *fakeStream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// streams gives one answer after the other to watches, and repeats the last one.
func streams(answers ...watchAnswer) func(metav1.ListOptions) (listwatch.Stream, error) {
	next := inTurn(answers)
	return func(metav1.ListOptions) (listwatch.Stream, error) { return next()() }
}

// lists gives one answer after the other to lists, and repeats the last one.
func lists(answers ...listAnswer) func(metav1.ListOptions) (runtime.Object, error) {
	next := inTurn(answers)
	return func(metav1.ListOptions) (runtime.Object, error) { return next()() }
}

func inTurn[T any](all []T) func() T {
	next := 0
	return func() T {
		next++
		return all[min(next, len(all))-1]
	}
}

// opens answers with a stream that delivers copies of events and stays open.
func opens(events ...watch.Event) watchAnswer {
	return func() (listwatch.Stream, error) { return newStream(copies(events)...), nil }
}

// breaks answers with a stream that delivers copies of events and then ends with err.
func breaks(err error, events ...watch.Event) watchAnswer {
	return func() (listwatch.Stream, error) { return newStream(copies(events)...).finish(err), nil }
}

// copies returns events with objects of their own: a store may change what it stores.
func copies(events []watch.Event) (all []watch.Event) {
	for _, e := range events {
		if e.Object != nil {
			e.Object = e.Object.DeepCopyObject()
		}
		all = append(all, e)
	}
	return all
}

// fails answers a watch with an error.
func fails(err error) watchAnswer {
	return func() (listwatch.Stream, error) { return nil, err }
}

// brings answers with a list.
func brings(version string, items ...*corev1.Secret) listAnswer {
	return func() (runtime.Object, error) { return list(version, items...), nil }
}

// listFails answers a list with an error.
func listFails(err error) listAnswer {
	return func() (runtime.Object, error) { return nil, err }
}
