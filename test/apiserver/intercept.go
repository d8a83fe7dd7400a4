// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Interceptor returns the response to a request, or nil to let the server handle it. The server calls it concurrently
// and without locks. It may block until ctx ends, which is when the client disconnects or the server closes.
type Interceptor func(ctx context.Context, request Request) *metav1.Status

// faults holds the injected faults.
type faults struct {
	mu        sync.Mutex
	intercept Interceptor
	wrap      Middleware
	rewriter  Rewriter
}

// Intercept calls f for every request from now on, authenticated or not. A nil f removes the interceptor. The server
// sends the Status that f returns with its Code, and with a Retry-After header if its details have RetryAfterSeconds.
// The constructors in k8s.io/apimachinery/pkg/api/errors make such a Status.
func (s *Server) Intercept(f Interceptor) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.intercept = f
}

// current returns the faults that apply to a request.
func (f *faults) current() (Middleware, Interceptor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wrap, f.intercept
}

// CloseStreams ends the open watches for which match returns true, or all if match is nil. The body of each response
// ends without an error, as when kube-apiserver terminates a watch. CloseStreams returns the number of watches, and
// does not wait until they have ended.
func (s *Server) CloseStreams(match func(Request) bool) int {
	watchers := s.watchers(match)
	for _, w := range watchers {
		w.end()
	}
	return len(watchers)
}

// watchers returns the open watches for which match returns true, or all if match is nil.
func (s *Server) watchers(match func(Request) bool) []*watcher {
	s.store.mu.Lock()
	var all []*watcher
	for _, t := range s.store.tables {
		for _, watchers := range t.watchers {
			for w := range watchers {
				all = append(all, w)
			}
		}
	}
	s.store.mu.Unlock()
	return slices.DeleteFunc(all, func(w *watcher) bool { return match != nil && !match(*w.request) })
}
