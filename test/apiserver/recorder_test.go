// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestRequests(t *testing.T) {
	f := newFixture(t, Options{})
	f.createSecret(newSecret("a"))
	f.do(http.MethodGet, "/api/v1/namespaces/default/secrets/b", "", "User-Agent", "agent/1", "Accept", "application/json")
	w := f.watchSecrets(named("a", watchList()))
	expect(t, w, watch.Added)
	got := f.Requests()
	if len(got) != 3 {
		t.Fatalf("got %d requests, want 3", len(got))
	}
	if r := got[0]; r.Verb != "create" || r.Resource != "secrets" || r.Namespace != "default" || r.Code != 201 ||
		r.ContentType != "application/vnd.kubernetes.protobuf" || r.Path != "/api/v1/namespaces/default/secrets" {
		t.Errorf("got %+v, want the create", r)
	}
	if r := got[1]; r.Verb != "get" || r.Key() != key("b") || r.Code != 404 || r.UserAgent != "agent/1" || r.Accept != "application/json" {
		t.Errorf("got %+v, want the get with code 404", r)
	}
	if r := got[2]; r.Verb != "watch" || r.Key() != key("a") || r.Code != 200 ||
		r.Query.Get("sendInitialEvents") != "true" || r.Query.Get("resourceVersionMatch") != "NotOlderThan" {
		t.Errorf("got %+v, want the watch and its query", r)
	}
}

func TestOpenStreams(t *testing.T) {
	f := newFixture(t, Options{})
	want := func(when string, named, namespace, total int) {
		t.Helper()
		got := [3]int{f.OpenStreams("secrets", key("a")), f.OpenStreams("secrets", types.NamespacedName{Namespace: "default"}), f.TotalStreams()}
		if want := [3]int{named, namespace, total}; got != want {
			t.Errorf("%s: got %v streams by name, by namespace, in total, want %v", when, got, want)
		}
	}
	one := f.watchSecrets(named("a", watchList()))
	want("one opened", 1, 0, 1)
	two := f.watchSecrets(named("a", watchList()))
	f.watchSecrets(metav1.ListOptions{})
	want("three opened", 2, 1, 3)
	one.Stop()
	check(t, f.WaitFor(t.Context(), func() bool { return f.TotalStreams() == 2 }))
	want("one stopped", 1, 1, 2)
	two.Stop()
	check(t, f.WaitFor(t.Context(), func() bool { return f.OpenStreams("secrets", key("a")) == 0 }))
	want("two stopped", 0, 1, 1)
	f.Close()
	want("server closed", 0, 0, 0)
}

func TestWaitForEndsWithContext(t *testing.T) {
	f := newFixture(t, Options{})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := f.WaitFor(ctx, func() bool {
		calls++
		cancel(cause)
		return false
	})
	if !errors.Is(err, cause) || calls != 1 {
		t.Errorf("got %v after %d calls, want the cause after 1", err, calls)
	}
	if err := f.WaitFor(ctx, func() bool { return true }); err != nil {
		t.Errorf("true condition, ended context: got %v, want no error", err)
	}
	expired, cancelExpired := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancelExpired()
	if err := f.WaitFor(expired, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// TestWaitForMissesNothing checks that a change between two calls of the condition is not missed.
func TestWaitForMissesNothing(t *testing.T) {
	r := newRecorder()
	for range 1000 {
		changed := r.next()
		go r.stream(&Request{Resource: "secrets"}, 1)
		<-changed
	}
	if r.total != 1000 {
		t.Errorf("got %d streams, want 1000", r.total)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	r := newRecorder()
	for range maxRecords + 10 {
		r.add(Request{})
	}
	if got := len(r.requests); got > maxRecords || got < maxRecords/2 {
		t.Errorf("got %d records, want between %d and %d", got, maxRecords/2, maxRecords)
	}
}
