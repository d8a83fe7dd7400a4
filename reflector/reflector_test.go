// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

var resource = schema.GroupResource{Resource: "secrets"}

func forbidden() error { return apierrors.NewForbidden(resource, key.Name, errors.New("no")) }

func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version: 9, current: 5", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

func TestOpensWithWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}, reflector.Options{})
		if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want synced at 5", got)
		}
		requests := r.source.seen()
		if len(requests) != 1 || requests[0].verb != "watch" {
			t.Fatalf("requests: got %+v, want one watch", requests)
		}
		o := requests[0].options
		if o.ResourceVersion != "" || o.SendInitialEvents == nil || !*o.SendInitialEvents ||
			o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || !o.AllowWatchBookmarks {
			t.Errorf("options: got %+v, want a consistent WatchList", o)
		}
		if o.TimeoutSeconds == nil || *o.TimeoutSeconds < 1800 || *o.TimeoutSeconds > 3600 {
			t.Errorf("timeoutSeconds: got %v, want 1800 to 3600", o.TimeoutSeconds)
		}
	})
}

// A plain watch at a version from the future is silent for ever. So every
// stream after the first begins with the state, at the last version seen.
func TestResumesWithWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(
			breaks(io.EOF, append(state(secret("5"), "7"), event(watch.Modified, secret("9")))...),
			breaks(io.EOF, append(state(secret("9"), "9"), bookmark("12", false))...),
			opens(state(secret("9"), "12")...),
		)}, reflector.Options{})
		after(time.Minute)
		var versions []string
		for _, request := range r.source.seen() {
			versions = append(versions, request.options.ResourceVersion)
			if request.options.SendInitialEvents == nil {
				t.Errorf("request %+v: got a plain watch, want a WatchList", request)
			}
		}
		if want := []string{"", "9", "12"}; !slices.Equal(versions, want) {
			t.Errorf("versions asked for: got %q, want %q", versions, want)
		}
	})
}

func TestListAndWatchWithoutWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{
			onList: func(o metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
			onWatch: streams(
				breaks(io.EOF, event(watch.Modified, secret("9"))),
				opens(),
			),
		}
		source.onList = func(o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion == "" {
				return list("7", *secret("5")), nil
			}
			return list("11", *secret("9")), nil
		}
		r := start(t, listOnly{source}, reflector.Options{})
		after(time.Minute)
		if got := r.slot.Load(); got.ResourceVersion != "9" {
			t.Errorf("state: got %+v, want version 9", got)
		}
		var got []string
		for _, request := range source.seen() {
			got = append(got, request.verb+" "+request.options.ResourceVersion)
			if o := request.options; o.Limit != 0 || o.Continue != "" || o.SendInitialEvents != nil {
				t.Errorf("%s: got options %+v, want no limit, continue or initial events", request.verb, o)
			}
		}
		if want := []string{"list ", "watch 7", "list 9", "watch 11"}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
	})
}

func TestRefusedWatchListFallsBackAtOnce(t *testing.T) {
	tests := map[string]error{
		"gate off":    apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
		"bad request": apierrors.NewBadRequest("unknown option"),
	}
	for name, refusal := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{
					onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
					onWatch: streams(fails(refusal), breaks(io.EOF), opens()),
				}
				r := start(t, source, reflector.Options{})
				if got := r.slot.Load(); !got.Synced {
					t.Errorf("state: got %+v, want synced without a pause", got)
				}
				if got := r.Status(); got.Failures != 0 || got.LastError != nil {
					t.Errorf("status: got %+v, want no failure", got)
				}
				after(time.Minute)
				asked := 0
				for _, request := range source.seen() {
					if request.options.SendInitialEvents != nil {
						asked++
					}
				}
				if asked != 1 {
					t.Errorf("WatchLists asked for: got %d, want 1: a refusal is remembered", asked)
				}
			})
		})
	}
}

func TestInitialEventsThatNeverEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
			onWatch: streams(opens(event(watch.Added, secret("5"))), opens()),
		}
		r := start(t, source, reflector.Options{})
		after(14 * time.Second)
		if r.slot.Load().Synced {
			t.Error("synced without the bookmark")
		}
		after(2 * time.Second)
		if got := r.slot.Load(); !got.Synced || got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want it read by a list", got)
		}
		if got := r.Status(); got.LastError == nil {
			t.Error("status: no cause for the stream given up")
		}
	})
}

func TestVersionAfterFailure(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	inStream := func(err *apierrors.StatusError) func() (listwatch.Stream, error) {
		return opens(event(watch.Error, &err.ErrStatus))
	}
	tests := map[string]struct {
		failures []func() (listwatch.Stream, error)
		want     []string // versions asked for after the first stream
	}{
		"connection":        {[]func() (listwatch.Stream, error){fails(errors.New("reset"))}, []string{"7", "7"}},
		"expired":           {[]func() (listwatch.Stream, error){fails(expired)}, []string{"7", ""}},
		"expired in stream": {[]func() (listwatch.Stream, error){inStream(expired)}, []string{"7", ""}},
		"too large once":    {[]func() (listwatch.Stream, error){fails(tooLarge())}, []string{"7", ""}},
		"too large twice":   {[]func() (listwatch.Stream, error){fails(tooLarge()), fails(tooLarge())}, []string{"7", "", ""}},
		"too large, then reset": {
			[]func() (listwatch.Stream, error){fails(tooLarge()), fails(errors.New("reset"))}, []string{"7", "", ""},
		},
		"error in stream": {[]func() (listwatch.Stream, error){inStream(apierrors.NewInternalError(errors.New("etcd")))}, []string{"7", "7"}},
		"unknown event":   {[]func() (listwatch.Stream, error){opens(event("NEWS", secret("8")))}, []string{"7", ""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := append([]func() (listwatch.Stream, error){breaks(io.EOF, state(secret("5"), "7")...)}, test.failures...)
				all = append(all, opens(state(secret("5"), "9")...))
				r := start(t, &fakeSource{onWatch: streams(all...)}, reflector.Options{})
				after(10 * time.Second)
				var got []string
				for _, request := range r.source.seen()[1:] {
					if got = append(got, request.options.ResourceVersion); request.verb != "watch" {
						t.Errorf("got a %s, want WatchLists only", request.verb)
					}
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("versions asked for: got %q, want %q", got, test.want)
				}
				if status := r.Status(); status.Failures != 0 || status.LastError == nil {
					t.Errorf("status: got %+v, want it well again with the last error kept", status)
				}
			})
		})
	}
}

// After an etcd restore versions start from an older one. Only a consistent
// read may conclude that.
func TestRollbackBeginsAnEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(
			breaks(io.EOF, state(secret("100"), "120")...),
			fails(tooLarge()), fails(tooLarge()),
			opens(append(state(secret("40"), "60"), event(watch.Modified, secret("61")))...),
		)}, reflector.Options{})
		if got := r.slot.Load(); got.ResourceVersion != "100" {
			t.Fatalf("before: got %+v, want version 100", got)
		}
		after(10 * time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "61" {
			t.Errorf("after the rollback: got %+v, want version 61", got)
		}
		if got := r.Status(); got.ResourceVersion != "61" || r.slot.Load().Epoch != 1 {
			t.Errorf("status: got %+v, want version 61 in the second epoch", got)
		}
	})
}

// A server that answers with less than what was asked for lags or lies; it is
// not believed.
func TestOlderReadIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(
			breaks(io.EOF, state(secret("100"), "120")...),
			opens(state(secret("40"), "60")...),
			opens(state(secret("100"), "130")...),
		)}, reflector.Options{})
		after(10 * time.Second)
		if got := r.slot.Load(); got.ResourceVersion != "100" {
			t.Errorf("state: got %+v, want version 100", got)
		}
		if got := r.Status(); r.slot.Load().Epoch != 0 || got.Malformed != 1 {
			t.Errorf("status: got %+v, want one malformed read and no epoch", got)
		}
	})
}

func TestForeignObjectStartsOver(t *testing.T) {
	other := secret("8")
	other.Name = "other"
	unversioned := secret("")
	tests := map[string]watch.Event{
		"another name":    event(watch.Modified, other),
		"another type":    event(watch.Added, &corev1.ConfigMap{}),
		"deleted other":   event(watch.Deleted, other),
		"no version":      event(watch.Modified, unversioned),
		"bookmark at 0":   bookmark("0", false),
		"bookmark at all": bookmark("", false),
		"error, no cause": event(watch.Error, other),
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, &fakeSource{onWatch: streams(
					opens(append(state(secret("5"), "7"), bad)...),
					opens(state(secret("5"), "9")...),
				)}, reflector.Options{})
				after(time.Second)
				if got := r.slot.Load(); !got.Exists || got.Object.Name != key.Name || got.ResourceVersion != "5" {
					t.Errorf("state: got %+v, want its own at 5", got)
				}
				if got := r.Status().Malformed; got != 1 {
					t.Errorf("malformed: got %d, want 1", got)
				}
				if got := r.source.seen(); len(got) != 2 || got[1].options.ResourceVersion != "" {
					t.Errorf("requests: got %+v, want a consistent read after it", got)
				}
			})
		})
	}
}

func TestForeignListIsNotStored(t *testing.T) {
	other := secret("8")
	other.Name = "other"
	tests := map[string]runtime.Object{
		"another name":    list("9", *other),
		"mixed":           list("9", *secret("5"), *other),
		"two of the name": list("9", *secret("5"), *secret("6")),
		"newer than read": list("4", *secret("5")),
		"not a list":      secret("5"),
		"no version":      list("", *secret("5")),
		"version zero":    list("0", *secret("5")),
		"a table instead": &metav1.Table{ListMeta: metav1.ListMeta{ResourceVersion: "9"}},
	}
	for name, bad := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &fakeSource{
					onList:  func(metav1.ListOptions) (runtime.Object, error) { return bad, nil },
					onWatch: streams(opens()),
				}
				r := start(t, listOnly{source}, reflector.Options{})
				after(time.Second)
				if got := r.slot.Load(); got.Synced || got.Exists {
					t.Errorf("state: got %+v, want nothing known", got)
				}
				if got := r.Status(); failure.Of(got.LastError) != failure.Malformed {
					t.Errorf("class: got %q (%v), want Malformed", failure.Of(got.LastError), got.LastError)
				}
			})
		})
	}
}

func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))}, reflector.Options{})
		r.Run(t.Context()) // returns, or the bubble reports a deadlock
		r.stop()
		r.Run(t.Context())
		if got := len(r.source.seen()); got != 1 {
			t.Errorf("requests: got %d, want 1 of the first run", got)
		}
	})
}

func TestOnChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		stream := newStream(state(secret("5"), "7")...)
		start(t, &fakeSource{onWatch: streams(
			fails(errors.New("reset")),
			func() (listwatch.Stream, error) { return stream, nil },
		)}, reflector.Options{OnChange: func() { calls.Add(1) }})
		if calls.Load() != 1 {
			t.Errorf("after a failure: got %d calls, want 1", calls.Load())
		}
		after(time.Second)
		if calls.Load() != 2 {
			t.Errorf("after the sync: got %d calls, want 2", calls.Load())
		}
		stream.events <- event(watch.Modified, secret("8"))
		synctest.Wait()
		if calls.Load() != 3 {
			t.Errorf("after an event: got %d calls, want 3", calls.Load())
		}
	})
}

// A stream that ends before the state was there is a failure, however it ended:
// somebody may wait, and must learn of it.
func TestEndBeforeTheStateIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := start(t, &fakeSource{
			onList:  func(metav1.ListOptions) (runtime.Object, error) { return list("7", *secret("5")), nil },
			onWatch: streams(breaks(io.EOF), opens()),
		}, reflector.Options{OnChange: func() { calls.Add(1) }})
		if got := r.Status(); got.Failures != 1 || got.LastError == nil || calls.Load() != 1 {
			t.Errorf("status: got %+v and %d calls, want a failure, told", got, calls.Load())
		}
		after(time.Second)
		if got := r.Status(); got.Failures != 0 || len(r.source.seen()) != 3 {
			t.Errorf("status: got %+v, want it synced by the second open", got)
		}
	})
}

// What comes after a bookmark and is older was told before it.
func TestEventBelowABookmarkIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, &fakeSource{onWatch: streams(opens(append(state(secret("5"), "7"),
			bookmark("20", false), event(watch.Modified, secret("15")))...))}, reflector.Options{})
		if got := r.slot.Load(); got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want version 5", got)
		}
	})
}

func TestLastContact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := newStream(state(secret("5"), "7")...)
		r := start(t, &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return stream, nil })}, reflector.Options{})
		for name, e := range map[string]watch.Event{
			"a bookmark": bookmark("8", false), "an event": event(watch.Modified, secret("9")),
		} {
			after(time.Minute)
			stream.events <- e
			synctest.Wait()
			if got := time.Since(r.Status().LastContact); got != 0 {
				t.Errorf("after %s: last contact %v ago, want now", name, got)
			}
		}
	})
}

// A reflector over the wire: it follows, resumes, and leaves nothing behind.
func TestRESTReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		secrets := &listwatch.RESTResource{
			Client: server.Client().CoreV1().RESTClient(), Name: "secrets",
			NewObject: func() runtime.Object { return &corev1.Secret{} },
			NewList:   func() runtime.Object { return &corev1.SecretList{} },
		}
		r := start(t, listwatch.FromREST(secrets, key.Namespace, key.Name), reflector.Options{})
		if got := r.slot.Load(); !got.Synced || got.Exists {
			t.Errorf("state: got %+v, want it known to be absent", got)
		}
		server.CloseStreams(nil)
		after(time.Second)
		if got := r.Status(); !got.Streaming || got.Failures != 0 || len(server.Requests()) != 2 {
			t.Errorf("status: got %+v, want a second stream", got)
		}
		r.stop()
		synctest.Wait()
		if got := server.TotalStreams(); got != 0 {
			t.Errorf("streams after the stop: got %d, want none", got)
		}
	})
}
