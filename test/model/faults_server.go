// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/test/apiserver"
)

// How soon all is fresh again after a fault: L1.
const (
	usualRecovery  = 15 * time.Second
	silentRecovery = time.Minute // half-open connections, and a server that was rolled back
)

// The faults of the server, as far as its responses show them.
func init() {
	addFaults(
		Fault{1, "compaction", OfServer, usualRecovery, func(w *World, t Target) func() {
			w.server.Compact()
			w.closeStreams(t)
			return nil
		}},
		Fault{3, "rollback", OfServer, silentRecovery, func(w *World, _ Target) func() {
			w.restore(noStream)
			w.reached()
			return nil
		}},
		Fault{3, "rollback-to-the-same-versions", OfServer, silentRecovery, rollsBackUnseen},
		Fault{8, "etcd-down", OfServer, usualRecovery, responds(internalError)},
		Fault{8, "unavailable", OfServer, usualRecovery, responds(unavailable)},
		Fault{8, "gateway-timeout", OfServer, usualRecovery, responds(gatewayTimeout)},
		Fault{9, "throttled", OfServer, usualRecovery, responds(tooManyRequests(1))},
		Fault{9, "throttled-without-header", OfServer, usualRecovery, responds(tooManyRequests(0))},
		Fault{10, "token-expired", OfServer, usualRecovery, responds(unauthorized)},
		Fault{11, "forbidden-at-first", OfServer, usualRecovery, func(w *World, t Target) func() { return w.first(t, 3, forbidden) }},
		Fault{12, "rights-revoked", OfKind, usualRecovery, responds(forbidden)},
		Fault{18, "streams-closed", OfServer, usualRecovery, func(w *World, t Target) func() {
			w.closeStreams(t)
			return nil
		}},
		Fault{19, "slow-server", OfServer, usualRecovery, delays(2 * time.Second)},
		Fault{20, "streams-closed-again-and-again", OfServer, usualRecovery, closesStreams},
		Fault{28, "watchlist-refused", OfServer, usualRecovery, refusesWatchList},
		Fault{35, "kind-not-served", OfKind, usualRecovery, responds(notServed)},
		Fault{36, "kind-throttled", OfKind, 30*time.Second + usualRecovery, responds(tooManyRequests(30))},
		Fault{37, "objects-unreadable", OfObjects, usualRecovery, responds(internalError)},
		Fault{37, "objects-forbidden", OfObjects, usualRecovery, responds(forbidden)},
		Fault{37, "objects-throttled", OfObjects, 30*time.Second + usualRecovery, responds(tooManyRequests(30))},
		Fault{37, "objects-hang", OfObjects, usualRecovery, hangs},
		Fault{38, "one-backend-of-three-unavailable", OfServer, usualRecovery, func(w *World, t Target) func() { return w.oneOfThree(t, unavailable) }},
		Fault{8, "etcd-down-streams-closed", OfServer, usualRecovery, closesStreamsAnd(responds(internalError))},
		Fault{9, "throttled-streams-closed", OfServer, usualRecovery, closesStreamsAnd(responds(tooManyRequests(1)))},
		Fault{40, "token-expired-streams-closed", OfServer, usualRecovery, closesStreamsAnd(responds(unauthorized))},
		Fault{41, "watch-refused", OfKind, usualRecovery, func(w *World, t Target) func() {
			return w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
				if request.Verb == "watch" && t.Has(request) {
					return forbidden(request)
				}
				return nil
			})
		}},
	)
}

func ofSubjects(request apiserver.Request) bool { return request.UserAgent == userAgent }

// response is what the server responds to a request.
type response func(apiserver.Request) *metav1.Status

func resourceOf(request apiserver.Request) schema.GroupResource {
	return schema.GroupResource{Group: request.Group, Resource: request.Resource}
}

func internalError(apiserver.Request) *metav1.Status {
	return &apierrors.NewInternalError(errors.New("etcdserver: no leader")).ErrStatus
}

func unavailable(apiserver.Request) *metav1.Status {
	status := apierrors.NewServiceUnavailable("the server is not ready").ErrStatus
	status.Code = http.StatusServiceUnavailable
	return &status
}

func gatewayTimeout(request apiserver.Request) *metav1.Status {
	return &apierrors.NewTimeoutError("etcdserver: request timed out", 0).ErrStatus
}

func tooManyRequests(retryAfter int) response {
	return func(apiserver.Request) *metav1.Status {
		return &apierrors.NewTooManyRequests("too many requests", retryAfter).ErrStatus
	}
}

func unauthorized(apiserver.Request) *metav1.Status {
	return &apierrors.NewUnauthorized("the token has expired").ErrStatus
}

func forbidden(request apiserver.Request) *metav1.Status {
	return &apierrors.NewForbidden(resourceOf(request), request.Name, errors.New("not allowed")).ErrStatus
}

// notServed is the 404 of a path.
func notServed(apiserver.Request) *metav1.Status {
	return &apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true).ErrStatus
}

// responds answers all requests with an error.
func responds(r response) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		return w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if t.Has(request) {
				return r(request)
			}
			return nil
		})
	}
}

// closesStreamsAnd begins a fault, and ends the streams that are open: all objects meet it at once.
func closesStreamsAnd(inject func(*World, Target) func()) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		heal := inject(w, t)
		w.closeStreams(t)
		return heal
	}
}

// first answers the first n requests for each object with an error.
func (w *World) first(t Target, n int, r response) (heal func()) {
	counts := map[string]int{}
	return w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		w.mu.Lock()
		defer w.mu.Unlock()
		counts[request.Path+request.Name]++
		if t.Has(request) && counts[request.Path+request.Name] <= n {
			return r(request)
		}
		return nil
	})
}

// oneOfThree answers every third request with an error.
func (w *World) oneOfThree(t Target, r response) (heal func()) {
	var count atomic.Int64
	return w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if t.Has(request) && count.Add(1)%3 == 0 {
			return r(request)
		}
		return nil
	})
}

// hangs lets requests wait until the fault ends.
func hangs(w *World, t Target) (heal func()) {
	over := make(chan struct{})
	remove := w.intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if t.Has(request) {
			w.reached()
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		return nil
	})
	return func() {
		remove()
		close(over)
	}
}

// delays delays each response.
func delays(d time.Duration) func(*World, Target) func() {
	return func(w *World, t Target) func() {
		return w.intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if t.Has(request) {
				w.reached()
				wait(ctx, d)
			}
			return nil
		})
	}
}

// closesStreams ends each stream soon after it was opened.
func closesStreams(w *World, t Target) (heal func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.calls.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				w.closeStreams(t)
			case <-ctx.Done():
				return
			}
		}
	})
	return cancel
}

// refusesWatchList answers as a server without the feature gate WatchList.
func refusesWatchList(w *World, t Target) (heal func()) {
	return w.intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if !t.Has(request) || request.Query.Get("sendInitialEvents") == "" {
			return nil
		}
		return &apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil).ErrStatus
	})
}

// rollsBackUnseen restores the server while no request succeeds, and writes the objects again until they have their old
// versions, with other contents. The newest one is left out, so that some managers have seen a version from the future,
// and others have not.
func rollsBackUnseen(w *World, t Target) (heal func()) {
	heal = closesStreamsAnd(responds(unavailable))(w, t)
	before := map[*Object]string{}
	for _, o := range w.objects {
		if state, exists := o.current(); exists && !state.Immutable {
			before[o] = state.Version
		}
	}
	objects := slices.SortedFunc(maps.Keys(before), func(a, b *Object) int { return compareVersions(before[a], before[b]) })
	w.restore(noStream)
	for _, o := range objects[:max(0, len(objects)-1)] {
		state, exists := o.current()
		for exists && !state.Immutable && compareVersions(state.Version, before[o]) < 0 {
			w.put(o, false)
			state, exists = o.current()
		}
	}
	return heal
}

func compareVersions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
