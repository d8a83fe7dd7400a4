// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Interceptor may answer a request in the server's place. It is called without locks, from many goroutines,
// and may wait until ctx ends: that is when the client has gone or the server closes. Nil lets the request
// through.
type Interceptor func(ctx context.Context, request Request) *metav1.Status

// faults is what makes the server misbehave on purpose.
type faults struct {
	mu        sync.Mutex
	intercept Interceptor
}

// Intercept has every request from now on pass through f, authenticated or not; nil ends that. The Status it
// returns is sent with its Code, and with a Retry-After header if its details have RetryAfterSeconds: take
// one from k8s.io/apimachinery/pkg/api/errors.
func (s *Server) Intercept(f Interceptor) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.intercept = f
}

func (f *faults) interceptor() Interceptor {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.intercept
}

// CloseStreams ends the open watches that match, all if match is nil, as the server does when it terminates
// watchers: the body ends cleanly. It returns how many there were, without waiting for them to be gone.
func (s *Server) CloseStreams(match func(Request) bool) int {
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
	ended := 0
	for _, w := range all {
		if match == nil || match(*w.request) {
			w.end()
			ended++
		}
	}
	return ended
}
