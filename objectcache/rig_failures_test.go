// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// failing is a way in which no object can be read.
type failing struct {
	intercept apiserver.Interceptor // the answer; nil without one
	wrap      apiserver.Middleware  // in front of the server; nil: nothing
	dials     func() error          // each dial returns such an error; nil: the connection is made
	is        func(error) bool      // holds for the error of a Get
	texts     int                   // of a Get, at most; 0 means 1
}

func answerAll(status *apierrors.StatusError) apiserver.Interceptor {
	return func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "create" {
			return nil
		}
		return &status.ErrStatus
	}
}

// onlyOf makes an interceptor apply to the requests of one object.
func onlyOf(name string, intercept apiserver.Interceptor) apiserver.Interceptor {
	return func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if request.Name != name {
			return nil
		}
		return intercept(ctx, request)
	}
}

// throttled is a 429, with a Retry-After unless seconds is 0.
func throttled(seconds int) *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("too many requests", seconds)
	err.ErrStatus.Code = http.StatusTooManyRequests
	return err
}

// failings are ways in which no object can be read, for all that ask.
func failings() map[string]failing {
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	return map[string]failing{
		"forbidden":        {intercept: answerAll(forbidden()), is: apierrors.IsForbidden},
		"unauthorized":     {intercept: answerAll(apierrors.NewUnauthorized("no")), is: apierrors.IsUnauthorized},
		"500":              {intercept: answerAll(apierrors.NewInternalError(errors.New("etcd is away"))), is: apierrors.IsInternalError},
		"503":              {intercept: answerAll(unavailable()), is: apierrors.IsServiceUnavailable},
		"429":              {intercept: answerAll(throttled(0)), is: apierrors.IsTooManyRequests},
		"429, Retry-After": {intercept: answerAll(throttled(3)), is: apierrors.IsTooManyRequests},
		"not served": {
			wrap: func(w http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
				if request.Verb == "create" {
					next(w, r)
				} else {
					http.NotFound(w, r)
				}
			},
			is: func(err error) bool {
				var notServed *resource.NotServedError
				return errors.As(err, &notServed)
			},
		},
		"hanging": {
			intercept: func(ctx context.Context, request apiserver.Request) *metav1.Status {
				if request.Verb != "create" {
					<-ctx.Done()
				}
				return nil
			},
			is: func(err error) bool { return hasText(err, "answer") },
		},
		"connection refused": {dials: func() error { return refused }, is: func(err error) bool { return hasText(err, "connection refused") }},
	}
}

// failingStrategies are the options of each kind of store.
func failingStrategies() map[string]objectcache.StoreOptions {
	return map[string]objectcache.StoreOptions{
		"watch":  objectcache.WatchOptions{RefusalGrace: -1, OutageGrace: -1},
		"TTL":    objectcache.TTLOptions{RefusalGrace: -1, OutageGrace: -1},
		"direct": objectcache.DirectOptions{},
	}
}

// failingRig is a rig whose server fails from begin on.
type failingRig struct {
	*rig

	failing failing
	fails   atomic.Bool // it has begun
	mu      sync.Mutex
	conns   []net.Conn // guarded by mu
}

// inFailing runs f in a bubble, with a store on which Run has not been called.
func inFailing(t *testing.T, failing failing, options objectcache.StoreOptions, f func(*testing.T, *failingRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &failingRig{rig: &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true}), stop: func() {}}, failing: failing}
		r.client = r.server.Client()
		store, err := objectcache.NewStore(resource.Secrets(r.newClient()), options)
		if err != nil {
			t.Fatal(err)
		}
		r.Store = store
		f(t, r)
		r.stop()
	})
}

// newClient returns a client whose dials fail once that has begun.
func (r *failingRig) newClient() kubernetes.Interface {
	r.t.Helper()
	config := r.server.Config()
	dial := config.Dial
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if r.fails.Load() && r.failing.dials != nil {
			return nil, r.failing.dials()
		}
		conn, err := dial(ctx, network, address)
		if err == nil {
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
		}
		return conn, err
	}
	return newClient(r.t, resource.ConfigFor(config))
}

// begin makes the server fail.
func (r *failingRig) begin() {
	if r.failing.intercept != nil {
		r.server.Intercept(r.failing.intercept)
	}
	if r.failing.wrap != nil {
		r.server.Wrap(r.failing.wrap)
	}
	r.fails.Store(true)
}

var _ objectcache.Store[*corev1.Secret] = (*failingRig)(nil)
