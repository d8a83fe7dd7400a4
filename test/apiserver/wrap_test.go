// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	listPath  = "/api/v1/namespaces/default/secrets"
	watchPath = listPath + "?watch=true"
)

// TestWrapResponds checks that a middleware can send any status, header and bytes, and that the status is recorded.
func TestWrapResponds(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			f.Wrap(func(w http.ResponseWriter, _ *http.Request, _ Request, _ http.HandlerFunc) {
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusTeapot)
				_, _ = io.WriteString(w, "<html>")
			})
			got := f.do(http.MethodGet, listPath, "")
			if got.code != http.StatusTeapot || string(got.body) != "<html>" || got.header.Get("Content-Type") != "text/html" {
				t.Errorf("got %d %q %q, want the response of the middleware", got.code, got.header, got.body)
			}
			f.Wrap(func(w http.ResponseWriter, r *http.Request, _ Request, _ http.HandlerFunc) { http.NotFound(w, r) })
			if _, err := f.client.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) || apierrors.ReasonForError(err) != metav1.StatusReasonNotFound {
				t.Errorf("got %v, want client-go's error for a 404 without a Status", err)
			}
			f.Wrap(nil)
			f.createSecret(newSecret("a"))
			requests := f.Requests()
			codes := []int{requests[0].Code, requests[1].Code, requests[2].Code}
			if len(requests) != 3 || codes[0] != 418 || codes[1] != 404 || codes[2] != 201 {
				t.Errorf("got %d requests with codes %v, want 418, 404 and 201", len(requests), codes)
			}
		})
	}
}

// TestWrapChangesTheRequest checks that the server handles the request that a middleware gives to it.
func TestWrapChangesTheRequest(t *testing.T) {
	f := newFixture(t, Options{})
	f.createNumbered(2)
	f.Wrap(func(w http.ResponseWriter, r *http.Request, request Request, next http.HandlerFunc) {
		if request.Verb == "list" && request.Name == "s00" {
			r.URL.RawQuery = "" // a server that ignores the selector
		}
		next(w, r)
	})
	if got := f.listSecrets(named("s00", metav1.ListOptions{})); len(got.Items) != 2 {
		t.Errorf("got %d items, want 2", len(got.Items))
	}
	if got := f.listSecrets(named("s01", metav1.ListOptions{})); len(got.Items) != 1 {
		t.Errorf("got %d items, want 1", len(got.Items))
	}
}

// TestEndAndResetBody checks that the client gets exactly n bytes of the body of a watch and of a list, and then its
// end or an error.
func TestEndAndResetBody(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, options)
			f.createSecret(newSecret("a"))
			whole := f.do(http.MethodGet, listPath, "").body
			for _, n := range []int{0, 1, 17, 100} {
				for _, path := range []string{listPath, watchPath} {
					for _, reset := range []bool{false, true} {
						f.Wrap(func(w http.ResponseWriter, r *http.Request, _ Request, next http.HandlerFunc) {
							if reset {
								next(ResetBody(w, n), r)
							} else {
								next(EndBody(w, n), r)
							}
						})
						var got []byte
						req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+path, nil)
						check(t, err)
						res, err := f.http.Do(req)
						if err == nil {
							got, err = io.ReadAll(res.Body)
							_ = res.Body.Close()
						}
						if len(got) != n || reset != (err != nil) {
							t.Errorf("%s, reset %v: got %d bytes and %v, want %d", path, reset, len(got), err, n)
						}
						if path == listPath && string(got) != string(whole[:len(got)]) {
							t.Errorf("got %q, want the beginning of %q", got, whole)
						}
					}
				}
			}
			if got := f.TotalStreams(); got != 0 {
				t.Errorf("got %d streams, want none", got)
			}
		})
	}
}

// TestBodyEndsWithItsLastByte checks that the write of the last byte of a limited body ends it, and not the next one,
// which may never come.
func TestBodyEndsWithItsLastByte(t *testing.T) {
	const text = "abcdef"
	for n := range len(text) + 2 {
		response := httptest.NewRecorder()
		written, err := io.WriteString(EndBody(response, n), text)
		ends := n <= len(text)
		if want := min(n, len(text)); written != want || response.Body.Len() != want || errors.Is(err, errBodyEnded) != ends || response.Flushed != ends {
			t.Errorf("end after %d of %d bytes: got %d bytes, flushed %v, and error %v", n, len(text), written, response.Flushed, err)
		}
		func() {
			defer func() {
				if got := recover(); (got != nil) != ends {
					t.Errorf("reset after %d of %d bytes: got panic %v", n, len(text), got)
				}
			}()
			_, _ = io.WriteString(ResetBody(httptest.NewRecorder(), n), text)
		}()
	}
}

// TestHoldHeader checks that the response to a watch comes with its first event, and that errors are sent at once.
func TestHoldHeader(t *testing.T) {
	for name, options := range map[string]Options{"http1": {InMemory: true}, "http2": {InMemory: true, TLS: true}} {
		t.Run(name, inBubble(func(t *testing.T) {
			f := newFixture(t, options)
			f.Wrap(func(w http.ResponseWriter, r *http.Request, _ Request, next http.HandlerFunc) { next(HoldHeader(w), r) })
			opened := make(chan watch.Interface)
			go func() {
				opened <- f.watchSecrets(named("a", metav1.ListOptions{ResourceVersion: f.ResourceVersion()}))
			}()
			time.Sleep(time.Minute)
			select {
			case <-opened:
				t.Error("got a response before the first event")
			default:
			}
			if got := f.OpenStreams("secrets", key("a")); got != 1 {
				t.Errorf("got %d streams, want 1", got)
			}
			f.createSecret(newSecret("a"))
			expect(t, <-opened, watch.Added)
			if got := f.Requests()[0].Code; got != http.StatusOK {
				t.Errorf("got code %d, want 200", got)
			}
			if _, err := f.client.CoreV1().Secrets("default").Get(t.Context(), "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want NotFound", err)
			}
		}))
	}
}

// TestThrottleBody checks that a body takes its time, and that a client that has enough ends it.
func TestThrottleBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, Options{InMemory: true, TLS: true})
		f.createSecret(newSecret("a"))
		whole := f.do(http.MethodGet, listPath, "").body
		f.Wrap(func(w http.ResponseWriter, r *http.Request, _ Request, next http.HandlerFunc) {
			next(ThrottleBody(r.Context(), w, time.Second), r)
		})
		began := time.Now()
		got := f.do(http.MethodGet, listPath, "").body
		if took, want := time.Since(began), time.Duration(len(whole))*time.Second; took != want || string(got) != string(whole) {
			t.Errorf("got %q after %v, want %q after %v", got, took, whole, want)
		}
		w := f.watchSecrets(named("a", watchList()))
		time.Sleep(5 * time.Second)
		w.Stop()
		synctest.Wait()
		if got := f.TotalStreams(); got != 0 {
			t.Errorf("got %d streams, want none", got)
		}
	})
}
