// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func always(err apierrors.APIStatus) Interceptor {
	return func(context.Context, Request) *metav1.Status {
		status := err.Status()
		return &status
	}
}

func TestIntercept(t *testing.T) {
	f := newFixture(t, Options{})
	gr := corev1.Resource("secrets")
	for name, test := range map[string]struct {
		status     apierrors.APIStatus
		code       int
		retryAfter string
	}{
		"forbidden":    {apierrors.NewForbidden(gr, "a", errors.New("no")), 403, ""},
		"unauthorized": {apierrors.NewUnauthorized("expired"), 401, ""},
		"throttled":    {apierrors.NewTooManyRequests("busy", 7), 429, "7"},
		"throttled, no header": {
			&apierrors.StatusError{ErrStatus: metav1.Status{Code: 429, Reason: metav1.StatusReasonTooManyRequests}}, 429, "",
		},
		"internal":     {apierrors.NewInternalError(errors.New("etcd: no leader")), 500, ""},
		"timeout":      {apierrors.NewTimeoutError("slow", 1), 504, "1"},
		"expired":      {apierrors.NewResourceExpired("old"), 410, ""},
		"empty status": {&apierrors.StatusError{}, 500, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f.Intercept(always(test.status))
			defer f.Intercept(nil)
			got := f.do(http.MethodGet, "/api/v1/secrets?watch=true", "")
			status := got.status(t)
			if got.code != test.code || status.Kind != "Status" || status.Status != "Failure" || int(status.Code) != test.code || status.Reason != test.status.Status().Reason {
				t.Errorf("got %d %s, want %d and the Status", got.code, got.body, test.code)
			}
			if header := got.header.Get("Retry-After"); header != test.retryAfter {
				t.Errorf("got Retry-After %q, want %q", header, test.retryAfter)
			}
			requests := f.Requests()
			if last := requests[len(requests)-1]; last.Code != test.code {
				t.Errorf("got code %d recorded, want %d", last.Code, test.code)
			}
		})
	}
	if got := f.do(http.MethodGet, "/api/v1/secrets", ""); got.code != 200 {
		t.Errorf("without an interceptor: got %d, want 200", got.code)
	}
}

// TestInterceptorContext checks that the context of an interceptor ends when the client disconnects, and when the
// server closes.
func TestInterceptorContext(t *testing.T) {
	f := newFixture(t, Options{})
	entered, returned := make(chan struct{}), make(chan struct{})
	f.Intercept(func(ctx context.Context, _ Request) *metav1.Status {
		entered <- struct{}{}
		<-ctx.Done()
		returned <- struct{}{}
		return nil
	})
	call := func(ctx context.Context) chan error {
		result := make(chan error, 1)
		go func() {
			_, err := f.client.CoreV1().Secrets("default").Get(ctx, "a", metav1.GetOptions{})
			result <- err
		}()
		<-entered
		return result
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := call(ctx)
	cancel()
	<-returned
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	result = call(ctx)
	closed := make(chan struct{})
	go func() { defer close(closed); f.Close() }()
	<-returned
	<-closed
	cancel() // stops the retries of client-go
	if err := <-result; err == nil {
		t.Error("closed server: got no error, want one")
	}
}

func TestCloseStreams(t *testing.T) {
	f := newFixture(t, Options{})
	a, b := f.watchSecrets(named("a", watchList())), f.watchSecrets(named("b", watchList()))
	expect(t, a, watch.Bookmark)
	expect(t, b, watch.Bookmark)
	if got := f.CloseStreams(func(r Request) bool { return r.Name == "a" }); got != 1 {
		t.Errorf("CloseStreams of a: got %d, want 1", got)
	}
	if event, ok := <-a.ResultChan(); ok {
		t.Errorf("got %v, want the end of the watch", event)
	}
	f.createSecret(newSecret("b"))
	expect(t, b, watch.Added)
	if got := f.CloseStreams(nil); got != 1 {
		t.Errorf("CloseStreams of all: got %d, want 1", got)
	}
	if event, ok := <-b.ResultChan(); ok {
		t.Errorf("got %v, want the end of the watch", event)
	}
	if err := f.WaitFor(t.Context(), func() bool { return f.TotalStreams() == 0 }); err != nil {
		t.Error(err)
	}
}
