// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

const (
	namespace = "default"
	// canary is object data, which no log or error may contain.
	canary = "canary-canary-canary"
)

// The rig of the tests of this package. rig_streams_test.go runs a test in a bubble.

// rig is a store of Secrets with any strategy, a client and an API server in one
// synctest bubble. The HTTP traffic is real, the time is virtual.
type rig struct {
	objectcache.Store[*corev1.Secret]

	t      *testing.T
	server *apiserver.Server
	client kubernetes.Interface
	stop   func()                        // ends Run and waits for it
	down   atomic.Pointer[metav1.Status] // the answer to every get, list and watch, if not nil

	// Those of a condition.
	padding  []byte        // of each object that is written
	delay    time.Duration // of each answer, with failVerbs
	halfSick bool          // failVerbs affects one of two requests
}

// newClient returns a client of the config, whose connections are closed at the end of the test.
func newClient(t testing.TB, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(httpClient.CloseIdleConnections)
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newStore returns a store on which Run has not been called.
func newStore[T cache.Object](t testing.TB, resource resource.Resource[T], options objectcache.WatchOptions) *objectcache.WatchStore[T] {
	t.Helper()
	store, err := objectcache.NewWatchStore(resource, options)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// runStore runs a store until the returned function is called, which waits for its
// end.
func runStore(ctx context.Context, t testing.TB, store interface{ Run(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- store.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

func newRig(t *testing.T, server apiserver.Options, options objectcache.StoreOptions) *rig {
	t.Helper()
	server.TLS = !blockingStreams // HTTP/2 takes it
	r := &rig{t: t, server: apiserver.New(t, server), stop: func() {}}
	r.client = r.server.Client()
	var err error
	if r.Store, err = objectcache.NewStore(resource.Secrets(clientOf(t, r.server)), options); err != nil {
		t.Fatal(err)
	}
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "watch" || request.Verb == "list" || request.Verb == "get" {
			return r.down.Load()
		}
		return nil
	})
	return r
}

// rigOf returns a rig with a running store of any resource, and without a server.
func rigOf(t *testing.T, resource resource.Resource[*corev1.Secret], options objectcache.WatchOptions) *rig {
	r := &rig{t: t, Store: newStore(t, resource, options)}
	r.run()
	return r
}

// run calls Run in a goroutine.
func (r *rig) run() {
	stop := runStore(r.t.Context(), r.t, r.Store)
	r.stop = func() { stop(); r.stop = func() {} }
	synctest.Wait()
}

// logText returns the text in a logger's buffer.
func logText(logger klog.Logger) string {
	return logger.GetSink().(ktesting.Underlier).GetBuffer().String()
}

// refuse makes the server answer every get, list and watch with err, until the next call.
func (r *rig) refuse(err *apierrors.StatusError) {
	if err == nil {
		r.down.Store(nil)
		return
	}
	r.down.Store(&err.ErrStatus)
}

func (r *rig) create(name string, change ...func(*corev1.Secret)) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string][]byte{"password": []byte(canary)},
	}
	if r.padding != nil {
		secret.Data["padding"] = r.padding
	}
	for _, f := range change {
		f(secret)
	}
	created, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatalf("create %s: %v", name, err)
	}
	synctest.Wait()
	return created
}

func (r *rig) update(name, value string) *corev1.Secret {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	if r.padding != nil {
		secret.Data["padding"] = r.padding
	}
	updated, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		r.t.Fatalf("update %s: %v", name, err)
	}
	synctest.Wait()
	return updated
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatalf("delete %s: %v", name, err)
	}
	synctest.Wait()
}

func immutable(secret *corev1.Secret) { yes := true; secret.Immutable = &yes }

// get calls Get with a time-out.
func (r *rig) get(name string, limit time.Duration) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	return r.Get(ctx, namespace, name)
}

// mustGet returns the object, or ends the test.
func (r *rig) mustGet(name string) *corev1.Secret {
	r.t.Helper()
	return r.mustGetWithin(name, time.Second)
}

func (r *rig) mustGetWithin(name string, limit time.Duration) *corev1.Secret {
	r.t.Helper()
	secret, err := r.get(name, limit)
	if err != nil {
		r.t.Fatalf("Get %s: %v", name, err)
	}
	return secret
}

// streams returns the number of watches of an object that are open on the server.
func (r *rig) streams(name string) int {
	synctest.Wait()
	return r.server.OpenStreams("secrets", types.NamespacedName{Namespace: namespace, Name: name})
}

// opens returns the number of watches of an object that were requested so far.
func (r *rig) opens(name string) int { return r.requests("watch", name) }

// requests returns the number of requests for an object so far.
func (r *rig) requests(verb, name string) int {
	synctest.Wait()
	count := 0
	for _, request := range r.server.Requests() {
		if request.Verb == verb && request.Name == name {
			count++
		}
	}
	return count
}

// wantValue checks the value that Get returns, within a second.
func (r *rig) wantValue(when, name, value string) {
	r.t.Helper()
	if got := string(r.mustGet(name).Data["password"]); got != value {
		r.t.Errorf("%s: Get %s: got %q, want %q", when, name, got, value)
	}
}

// reads returns the number of lists and watches of an object so far.
func (r *rig) reads(name string) int {
	synctest.Wait()
	count := 0
	for _, request := range r.server.Requests() {
		if (request.Verb == "list" || request.Verb == "watch") && request.Name == name {
			count++
		}
	}
	return count
}

func forbidden() *apierrors.StatusError {
	return apierrors.NewForbidden(corev1.Resource("secrets"), "", errors.New("no"))
}

func unavailable() *apierrors.StatusError {
	err := apierrors.NewServiceUnavailable("down")
	err.ErrStatus.Code = http.StatusServiceUnavailable
	return err
}

// async calls Get in a goroutine.
func (r *rig) async(ctx context.Context, name string) <-chan result {
	done := make(chan result, 1)
	go func() {
		secret, err := r.Get(ctx, namespace, name)
		done <- result{secret, err, time.Now()}
	}()
	synctest.Wait()
	return done
}

// result is what Get returned, and when.
type result struct {
	secret *corev1.Secret
	err    error
	at     time.Time
}

// within checks that Get returns the object with that UID within a limit of virtual
// time. A limit of 0 gives Get ten minutes, and wants it to return in six seconds.
func (r *rig) within(name string, limit time.Duration, uid types.UID) {
	r.t.Helper()
	began := time.Now()
	got, err := r.get(name, cmp.Or(limit, 10*time.Minute))
	if err != nil || got.UID != uid {
		r.t.Errorf("Get %s: got %v, %v, want UID %s", name, got, err, uid)
	}
	if took, want := time.Since(began), cmp.Or(limit, 6*time.Second); took > want {
		r.t.Errorf("Get %s took %v, want it within %v", name, took, want)
	}
}

// holdBack blocks requests with one of the verbs until release is called.
func (r *rig) holdBack(verbs ...string) (release func()) {
	gate := make(chan struct{})
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if slices.Contains(verbs, request.Verb) {
			<-gate
		}
		return nil
	})
	return func() { close(gate); r.server.Intercept(nil) }
}

// untilRefusalIsOld sleeps for ten minutes, and then until the last refusal is too
// old to be returned.
func (r *rig) untilRefusalIsOld() {
	time.Sleep(10 * time.Minute)
	for {
		status, _ := r.Status(namespace, "tls")
		if time.Since(status.LastErrorTime) > 2*time.Second {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// seal gives a Secret a value and makes it immutable.
func (r *rig) seal(name, value string) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	immutable(secret)
	if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		r.t.Fatalf("seal %s: %v", name, err)
	}
	synctest.Wait()
}

// change is a pair that Changes yields.
type change struct {
	objectcache.Change[*corev1.Secret]

	owners []types.UID
}

func (c change) String() string {
	switch name := c.Key.Name; {
	case c.Err == nil:
		return name + "=" + string(c.Object.Data["password"])
	case c.Object != nil:
		return name + " has an object and an error"
	case c.Deleted && apierrors.IsNotFound(c.Err):
		return name + " gone"
	case apierrors.IsNotFound(c.Err):
		return name + " absent"
	case !errors.Is(c.Err, objectcache.ErrNotSynced):
		return name + ": " + c.Err.Error()
	default:
		return name + " refused: " + string(apierrors.ReasonForError(c.Err))
	}
}

// subscriber is a caller that ranges over Changes.
type subscriber struct {
	changes chan change
	done    chan struct{}
	stop    func()
}

// subscribe starts a subscriber.
func (r *rig) subscribe() *subscriber {
	ctx, cancel := context.WithCancel(r.t.Context())
	s := &subscriber{changes: make(chan change, 10_000), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for c, owners := range r.Changes(ctx) {
			s.changes <- change{c, owners}
		}
	}()
	s.stop = func() { cancel(); <-s.done }
	synctest.Wait()
	return s
}

// seen returns the changes since the last call, as "name=value", "name gone", "name
// absent" or "name refused: reason".
func (s *subscriber) seen() []string {
	synctest.Wait()
	var all []string
	for {
		select {
		case change := <-s.changes:
			all = append(all, change.String())
		default:
			return all
		}
	}
}

// sorted is seen, sorted.
func (s *subscriber) sorted() []string { return slices.Sorted(slices.Values(s.seen())) }

// want checks the changes that a subscriber has seen.
func want(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", when, got, want)
	}
}
