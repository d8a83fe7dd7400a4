// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// errQuoting has the text of client-go's decoders.
var errQuoting = fmt.Errorf("Object 'Kind' is missing in '%s'", canary) //nolint:staticcheck // client-go's words

// quotingSources are sources whose errors quote an object.
func quotingSources() map[string]listwatch.Source {
	notObjects := &stringList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []string{canary}}
	page := apierrors.NewGenericServerResponse(502, http.MethodGet, resource, "", canary, 0, true)
	listsOf := func(answer listAnswer) listOnly {
		return listing(&fakeSource{onList: lists(answer), onWatch: streams(opens(undecoded(canary)))})
	}
	both := func(answer watchAnswer) *fakeSource {
		return &fakeSource{onList: lists(listFails(errQuoting)), onWatch: streams(answer)}
	}
	return map[string]listwatch.Source{
		"list":                  listsOf(listFails(errQuoting)),
		"list, wrapped":         listsOf(listFails(fmt.Errorf("x: %w", errQuoting))),
		"list, malformed":       listsOf(listFails(fmt.Errorf("%w: %w", cache.ErrMalformed, errQuoting))),
		"list, an HTML page":    listsOf(listFails(page)),
		"event after a list":    listsOf(brings("7", secret("5"))),
		"watch":                 both(fails(errQuoting)),
		"watch, an HTML page":   both(fails(fmt.Errorf("x: %w", page))),
		"Next":                  both(breaks(errQuoting)),
		"Next, at the end":      both(breaks(fmt.Errorf("%w: %w", errQuoting, io.ErrUnexpectedEOF))),
		"event":                 both(opens(undecoded(canary))),
		"event after the state": both(opens(append(state(secret("5"), "7"), undecoded(canary))...)),
		"list, not of objects":  listsOf(func() (runtime.Object, error) { return notObjects, nil }),
		"event of another type": both(opens(event(watch.EventType(canary), secret("5")))),
		"event with a list":     both(opens(event(watch.Added, list("7", secret("5"))))),
	}
}

// The message of a Status is the server's. Its control characters reach no log and no status.
func TestControlCharactersOfServers(t *testing.T) {
	refused := apierrors.NewForbidden(resource, "tls", errors.New("no\x1b[31m\nfaked line\u202e\x07\u0085"))
	const want = `no\x1b[31m\nfaked line\u202e\a\u0085`
	sources := map[string]listwatch.Source{
		"list":  listing(&fakeSource{onList: lists(listFails(refused))}),
		"watch": &fakeSource{onList: lists(listFails(refused)), onWatch: streams(fails(refused))},
		"event": &fakeSource{onList: lists(listFails(refused)), onWatch: streams(opens(watch.Event{Type: watch.Error, Object: &refused.ErrStatus}))},
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			var err error
			log := logged(t, "2", func() {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, source, reflector.Options{})
					after(time.Minute)
					err = r.Status().LastError
				})
			})
			if err == nil || !strings.Contains(err.Error(), want) || !apierrors.IsForbidden(err) {
				t.Errorf("status: got %q, want a 403 with %s", err, want)
			}
			if i := strings.IndexAny(log, "\x1b\x07\u202e\u0085"); i >= 0 || strings.Contains(log, "\nfaked") {
				t.Errorf("log: got %q, want no control characters of the server", log)
			}
		})
	}
}

// Issue 8: client-go's decoding errors quote the object. No such text appears in a
// status, in the status of a gate, or in a log.
func TestIssue8_ErrorsQuoteNoObject(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		for name, source := range quotingSources() {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "10", func() {
					synctest.Test(t, func(t *testing.T) {
						gate := reflector.NewGate(reflector.GateOptions{})
						r := start(t, source, reflector.Options{Gate: gate})
						start(t, source, reflector.Options{Gate: gate}) // an outage takes two that fail
						after(5 * time.Minute)
						err := r.Status().LastError
						if err == nil {
							t.Error("status: got no error")
						}
						checkSecrecy(t, "error", fmt.Sprintf("%v %+v %#v", err, err, err))
						cause := gate.Status().Cause
						checkSecrecy(t, "gate", fmt.Sprintf("%v %+v", cause, cause))
					})
				})
				checkSecrecy(t, "log", log)
				if !strings.Contains(log, "Cannot read the object") {
					t.Errorf("log: got %q, want the failure in it", log)
				}
			})
		}
	})
}

// stringList is a list whose items are not objects.
type stringList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []string
}

func (l *stringList) DeepCopyObject() runtime.Object { return l }

// client-go prints the bodies of answers from verbosity 8 up. The logger that it gets from
// a reflector drops them.
func TestBodiesAreNotLogged(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		log := logged(t, "10", func() {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true})
				quiet := klog.NewContext(t.Context(), logr.Discard())
				core := server.Client().CoreV1()
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
				_, err := core.Namespaces().Create(quiet, namespace, metav1.CreateOptions{})
				_, err2 := core.Secrets(key.Namespace).Create(quiet, secret(""), metav1.CreateOptions{})
				if err := errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				r := start(t, struct {
					listwatch.Source
					noWatchList
				}{Source: fromREST(server)}, reflector.Options{})
				if got := r.slot.Load(); !got.Exists {
					t.Errorf("state: got %+v, want the object", got)
				}
			})
		})
		checkSecrecy(t, "log", log)
		if !strings.Contains(log, "200 OK") {
			t.Errorf("log: got %q, want the lines of client-go in it", log)
		}
	})
}

// Peer bug 18, and similar ones of client-go: an event that the session refuses, or
// that the store fails to store, appears in no log and no error.
func TestPeerBug18_NoObjectDataInLogsAndErrors(t *testing.T) {
	tests := map[string]struct {
		event   watch.Event
		failing bool // the store fails, and cannot check objects
	}{
		"foreign object":       {event(watch.Modified, otherSecret("8")), false},
		"unknown event":        {event("NEWS", secret("8")), true},
		"error with an object": {event(watch.Error, secret("8")), true},
		"store fails":          {event(watch.Modified, secret("8")), true},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "10", func() {
					synctest.Test(t, func(t *testing.T) {
						source := watching(opens(append(state(secret("5"), "7"), test.event)...), opens(state(secret("5"), "9")...))
						var r *rig
						if test.failing {
							r = startWith(t, source, failingStore{newStore()}, reflector.Options{})
						} else {
							r = start(t, source, reflector.Options{})
						}
						after(time.Minute)
						err := r.Status().LastError
						if err == nil {
							t.Error("status: got no error")
						}
						checkSecrecy(t, "error", fmt.Sprintf("%v %+v %#v", err, err, err))
					})
				})
				checkSecrecy(t, "log", log)
				if !strings.Contains(log, "Cannot read the object") {
					t.Errorf("log: got %q, want the failure in it", log)
				}
			})
		}
	})
}

// A panic in a source is a failure of the attempt. The next attempt follows as after
// any failure, and the value of the panic appears nowhere.
func TestPanicOfASourceIsAFailure(t *testing.T) {
	good := opens(state(secret("5"), "7")...)
	listed := brings("7", secret("5"))
	panics := listAnswer(func() (runtime.Object, error) { panic(canary) })
	var none map[string]int
	increments := func() (listwatch.Stream, error) { none[canary]++; return nil, nil }
	withLists := func(answers ...watchAnswer) *fakeSource {
		return &fakeSource{onList: lists(listed), onWatch: streams(answers...)}
	}
	parkedAndBlocking(t, func(t *testing.T) {
		tests := map[string]listwatch.Source{
			"Watch, a string":        withLists(panicsWith(canary), panicsWith(canary), good),
			"Watch, an error":        withLists(panicsWith(errors.New(canary)), good),
			"Watch, a runtime error": withLists(increments, good),
			"Watch, no stream":       withLists(fails(nil), good),
			"Next, before the state": withLists(panicsAfter(event(watch.Added, secret("5"))), good),
			"Next, after the state":  watching(panicsAfter(state(secret("5"), "7")...), good),
			"Next, event of nothing": watching(opens(append(state(secret("5"), "7"), event(watch.Added, nil))...), good),
			"List":                   listing(&fakeSource{onList: lists(panics, panics, panics, listed), onWatch: streams(opens())}),
			"Watch after a list":     listing(withLists(panicsWith(canary), opens())),
			"Next after a list":      listing(withLists(panicsAfter(), opens())),
		}
		for name, source := range tests {
			t.Run(name, func(t *testing.T) {
				log := logged(t, "10", func() {
					synctest.Test(t, func(t *testing.T) {
						r := start(t, source, reflector.Options{})
						if got := r.Status(); got.Failures == 0 || failure.Of(got.LastError) != failure.Malformed {
							t.Errorf("status: got %+v of class %q, want a Malformed failure", got, failure.Of(got.LastError))
						}
						after(time.Minute)
						got := r.Status()
						if !got.Synced || got.Failures != 0 {
							t.Errorf("status after a minute: got %+v, want no failure any more", got)
						}
						checkSecrecy(t, "error", fmt.Sprintf("%v %+v %#v", got.LastError, got.LastError, got.LastError))
					})
				})
				checkSecrecy(t, "log", log)
			})
		}
	})
}
