// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// lasting are failings that last, also those whose answers differ each time.
func lasting() map[string]failing {
	all := failings()
	var requests atomic.Int64
	reset := func() error { // a connection of another port each time
		source := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 30000 + int(requests.Add(1))}
		return &net.OpError{Op: "read", Net: "tcp", Source: source, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}, Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	all["connection reset"] = failing{dials: reset}
	all["no name"] = failing{dials: func() error {
		from := fmt.Sprintf("read udp 10.0.0.2:%d->10.0.0.10:53: i/o timeout", 30000+requests.Add(1))
		return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: from, Name: "api", Server: "10.0.0.10:53", IsTimeout: true}}
	}}
	numbered := func(code int, reason metav1.StatusReason, format string) failing {
		return failing{intercept: func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "create" {
				return nil
			}
			n := requests.Add(1)
			return &metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: strings.NewReplacer("%d", fmt.Sprint(n), "%u", fmt.Sprintf("%012d", n)).Replace(format)}
		}}
	}
	all["a 500 with ports of etcd"] = numbered(500, metav1.StatusReasonInternalError, "rpc error: error reading from server: read tcp 127.0.0.1:4%d->127.0.0.1:2379: read: connection reset by peer")
	all["a 500 with a request id"] = numbered(500, metav1.StatusReasonInternalError, "webhook failed, request id: 5f%d-a after 0.%ds (9f8b8c1e-0000-4000-8000-%u)")
	all["a 504 with versions"] = numbered(504, metav1.StatusReasonTimeout, "Too large resource version: 7%d, current: %d")
	all["a page of a proxy"] = failing{wrap: func(w http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if request.Verb == "create" {
			next(w, r)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
		_, _ = fmt.Fprintf(w, "<html>request %d</html>", requests.Add(1))
	}}
	all["resets"] = failing{wrap: func(w http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if request.Verb == "create" {
			next(w, r)
			return
		}
		panic(http.ErrAbortHandler)
	}}
	all["forbidden, naming the object"] = failing{intercept: func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "create" {
			return nil
		}
		return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, errors.New("no")).ErrStatus
	}}
	all["two servers that fail in two ways"] = failing{texts: 2, intercept: func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if requests.Add(1)%2 == 0 {
			return answerAll(unavailable())(ctx, request)
		}
		return answerAll(forbidden())(ctx, request)
	}}
	hanging := all["hanging"]
	hanging.texts = 2 // before its first attempt, an object may wait for others
	all["hanging"] = hanging
	return all
}

// A program that copies the error of a Get into the status of an object writes once for each cause: 150 Gets in 10 s,
// with contexts of several lengths, have one text.
func TestTextOfErrorsIsStable(t *testing.T) {
	for strategy, options := range map[string]objectcache.StoreOptions{
		"watch":  objectcache.WatchOptions{},
		"TTL":    objectcache.TTLOptions{},
		"direct": objectcache.DirectOptions{},
	} {
		if strategy != "watch" && (testmain.Race || testing.Short()) {
			continue // it takes long
		}
		for name, failing := range lasting() {
			t.Run(strategy+"/"+name, func(t *testing.T) {
				inFailing(t, failing, options, func(t *testing.T, r *failingRig) {
					r.begin()
					r.run()
					for i := range 20 {
						r.AddReference(namespace, fmt.Sprintf("tls-%d", i), "pod")
					}
					texts, gets := map[string]int{}, 0
					for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
						_, err := r.get("tls-0", time.Duration(10+gets*7%90)*time.Millisecond)
						texts[textOf(err)]++
						if _, direct := options.(objectcache.DirectOptions); !direct {
							_, err := r.TryGet(namespace, "tls-0")
							texts[textOf(err)]++
						}
						if gets++; gets%10 == 0 { // another object fails at another moment
							go func() { _, _ = r.get("tls-1", time.Second) }()
						}
						time.Sleep(time.Minute / 1000)
					}
					if want := max(1, failing.texts); len(texts) > want {
						t.Errorf("got %d texts, want %d:\n%s", len(texts), want, strings.Join(slices.Sorted(maps.Keys(texts)), "\n"))
					}
				})
			})
		}
	}
}

func textOf(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// The cause that a program gives its context stands in the text while there is no failure. Whether the context ends
// before the server has refused often enough is a matter of the moment.
func TestCauseOfAContextInTheText(t *testing.T) {
	for name, want := range map[string]bool{"hanging": true, "forbidden": false, "503": false, "connection refused": false} {
		t.Run(name, func(t *testing.T) {
			inFailing(t, failings()[name], objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
				r.begin()
				r.run()
				r.AddReference(namespace, "tls", "pod")
				for range 3 {
					ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errTakesTooLong)
					_, err := r.Get(ctx, namespace, "tls")
					if got := hasText(err, errTakesTooLong.Error()); got != want || ctx.Err() != nil && !errors.Is(err, errTakesTooLong) {
						t.Errorf("got %v, want the cause of the context in it: %t", err, want)
					}
					cancel()
				}
			})
		})
	}
}

// What changes with time is in the fields of errors.
func TestFieldsOfErrors(t *testing.T) {
	inFailing(t, failings()["429, Retry-After"], objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
		r.begin()
		r.run()
		r.AddReference(namespace, "tls", "pod")
		_, _ = r.get("tls", time.Second)
		status, _ := r.Status(namespace, "tls")
		var waiting *reflector.WaitingError
		if !errors.As(status.Waiting, &waiting) || !errors.Is(status.Waiting, reflector.ErrWaiting) || !waiting.Until.After(time.Now()) {
			t.Errorf("got %#v, want that the object waits until a later time", status.Waiting)
		}
	})
	inFailing(t, failing{}, objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
		version := r.create("tls").ResourceVersion
		r.run()
		r.AddReference(namespace, "tls", "pod")
		_, err := r.GetWithOptions(t.Context(), namespace, "tls", objectcache.GetOptions{NotOlderThan: "100000"})
		var stale *objectcache.StaleError
		if !errors.As(err, &stale) || !errors.Is(err, objectcache.ErrStale) || stale.Demanded != "100000" || stale.Version != version {
			t.Errorf("got %v, want a StaleError with the versions %s and 100000", err, version)
		}
		if text := textOf(err); strings.Contains(text, "100000") {
			t.Errorf("got %q, want no version", text)
		}
	})
}

// Without Run, and without an answer of the server, the error was only "not synced:
// context deadline exceeded".
func TestIssue8ErrorsNameTheCause(t *testing.T) {
	t.Run("not started", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.AddReference(namespace, "tls", "pod")
			_, err := r.get("tls", time.Second)
			for _, want := range []error{objectcache.ErrNotSynced, objectcache.ErrNotStarted, context.DeadlineExceeded} {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want it to be %v", err, want)
				}
			}
		})
	})
	t.Run("not started is logged once", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
			klog.SetLogger(logger) // Run has no logger yet
			defer klog.ClearLogger()
			logged := func() int {
				return strings.Count(logText(logger), "Run has not been called")
			}
			r.AddReference(namespace, "tls", "pod")
			_, _ = r.get("tls", 500*time.Millisecond)
			if got := logged(); got != 0 {
				t.Errorf("lines after half a second: got %d, want 0: Run may be about to start", got)
			}
			_, _ = r.get("tls", 2*time.Second)
			_, _ = r.get("tls", 2*time.Second)
			if got := logged(); got != 1 {
				t.Errorf("lines: got %d, want 1", got)
			}
		})
	})
	t.Run("not answered", func(t *testing.T) {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			release := r.holdBack("watch")
			r.AddReference(namespace, "tls", "pod")
			asked := time.Now()
			_, err := r.get("tls", 3*time.Second)
			if !errors.Is(err, objectcache.ErrNotSynced) || !strings.HasSuffix(err.Error(), "not synced: no answer from the server") {
				t.Errorf("got %v, want \"no answer from the server\"", err)
			}
			if status, _ := r.Status(namespace, "tls"); status.AskedAt.Sub(asked).Abs() > time.Millisecond || status.Failures > 0 || status.Waiting != nil {
				t.Errorf("status: got %+v, want that the server was asked at %v", status, asked)
			}
			release()
			synctest.Wait()
			if status, _ := r.Status(namespace, "tls"); !status.AskedAt.IsZero() {
				t.Errorf("status after the answer: asked at %v, want zero", status.AskedAt)
			}
		})
	})
	t.Run("not answered after a failure", func(t *testing.T) {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.refuse(unavailable())
			r.AddReference(namespace, "tls", "pod")
			time.Sleep(10 * time.Second)
			release := r.holdBack("watch", "list")
			time.Sleep(5 * time.Second)
			_, err := r.get("tls", 3*time.Second)
			// An attempt that began more than 5 s ago is given up for the Get. That is then the failure.
			if !apierrors.IsServiceUnavailable(err) && !errors.Is(err, reflector.ErrNoAnswer) {
				t.Errorf("got %v, want the failure, or that the attempt was given up", err)
			}
			release()
		})
	})
}
