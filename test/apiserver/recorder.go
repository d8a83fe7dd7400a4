// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// maxRecords is the maximum number of recorded requests. It bounds the memory of a long-lived server.
const maxRecords = 1 << 18

// recorder records requests and counts open watches.
type recorder struct {
	mu       sync.Mutex
	requests []*Request
	open     map[streamKey]int
	total    int
	observer Observer
	changed  chan struct{} // closed at the next change; nil if there is no waiter
}

type streamKey struct {
	resource schema.GroupResource
	key      types.NamespacedName
}

func newRecorder() *recorder { return &recorder{open: map[streamKey]int{}} }

// add records a request. The caller sets its code with setCode.
func (r *recorder) add(req Request) *Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) >= maxRecords {
		r.requests = slices.Clone(r.requests[len(r.requests)/2:])
	}
	r.requests = append(r.requests, &req)
	notify(r.observer.Request, req)
	r.notifyLocked()
	return &req
}

func (r *recorder) setCode(req *Request, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Code == 0 {
		req.Code = code
		notify(r.observer.Response, *req)
		r.notifyLocked()
	}
}

// stream adds delta to the number of open watches: 1 at the start of a watch, -1 at its end.
func (r *recorder) stream(req *Request, delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := streamKey{req.groupResource(), req.Key()}
	r.total += delta
	if r.open[key] += delta; r.open[key] == 0 {
		delete(r.open, key)
	}
	if delta > 0 {
		notify(r.observer.StreamOpened, *req)
	} else {
		notify(r.observer.StreamClosed, *req)
	}
	r.notifyLocked()
}

// notify calls an observer's function.
func notify(f func(Request), req Request) {
	if f != nil {
		f(req)
	}
}

func (r *recorder) notifyLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// next returns a channel that is closed at the next change.
func (r *recorder) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed
}

// Requests returns all requests so far, oldest first, including those in progress. The server keeps at least the last
// 131,072 of them.
func (s *Server) Requests() []Request {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	requests := make([]Request, len(s.records.requests))
	for i, req := range s.records.requests {
		requests[i] = *req
	}
	return requests
}

// OpenStreams returns the number of open watches of a resource that select exactly key. A resource outside of core/v1
// is followed by its group: "leases.coordination.k8s.io". The key of a watch of a whole namespace has no name, that of
// a watch of all namespaces is empty.
func (s *Server) OpenStreams(resource string, key types.NamespacedName) int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return s.records.open[streamKey{schema.ParseGroupResource(resource), key}]
}

// TotalStreams returns the number of open watches.
func (s *Server) TotalStreams() int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return s.records.total
}

// WaitFor waits until condition returns true. It calls condition at once, and again after every change of the results
// of [Server.Requests], [Server.OpenStreams] and [Server.TotalStreams]; it never polls. If ctx ends first, WaitFor
// returns an error that wraps the cause.
func (s *Server) WaitFor(ctx context.Context, condition func() bool) error {
	for {
		// Get the channel first, so that a change while condition runs is not missed.
		changed := s.records.next()
		if condition() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the requests and streams of the API server: %w", context.Cause(ctx))
		}
	}
}
