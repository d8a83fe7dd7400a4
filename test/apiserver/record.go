// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxRecords bounds the memory of a server that lives long; tests stay far below it.
const maxRecords = 1 << 18

// recorder keeps what the server has been asked, and which watches are open.
type recorder struct {
	mu       sync.Mutex
	requests []*Request
	open     map[streamKey]int
	total    int
	changed  chan struct{} // closed at the next change; nil while nobody waits
}

type streamKey struct {
	resource string
	key      types.NamespacedName
}

func newRecorder() *recorder { return &recorder{open: map[streamKey]int{}} }

// add records a request; the caller fills in its code with finish.
func (r *recorder) add(req Request) *Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) >= maxRecords {
		r.requests = slices.Clone(r.requests[len(r.requests)/2:])
	}
	r.requests = append(r.requests, &req)
	r.notifyLocked()
	return &req
}

func (r *recorder) setCode(req *Request, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if req.Code == 0 {
		req.Code = code
		r.notifyLocked()
	}
}

// stream counts a watch as open, or with delta -1 no longer.
func (r *recorder) stream(req *Request, delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := streamKey{req.Resource, req.Key()}
	r.total += delta
	if r.open[key] += delta; r.open[key] == 0 {
		delete(r.open, key)
	}
	r.notifyLocked()
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

// Requests returns all requests so far, oldest first, those under way included. Of more than 262,144 the
// older ones are forgotten.
func (s *Server) Requests() []Request {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	requests := make([]Request, len(s.records.requests))
	for i, req := range s.records.requests {
		requests[i] = *req
	}
	return requests
}

// OpenStreams returns how many watches of a resource are open that select exactly key. A watch of a whole
// namespace has a key without name, one of everything an empty key.
func (s *Server) OpenStreams(resource string, key types.NamespacedName) int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return s.records.open[streamKey{resource, key}]
}

// TotalStreams returns how many watches are open.
func (s *Server) TotalStreams() int {
	s.records.mu.Lock()
	defer s.records.mu.Unlock()
	return s.records.total
}

// WaitFor returns when condition holds. It asks at once, and again after every change of what [Server.Requests],
// [Server.OpenStreams] and [Server.TotalStreams] return; it never polls. The error is ctx's.
func (s *Server) WaitFor(ctx context.Context, condition func() bool) error {
	for {
		// The channel comes first: a change while condition runs is not missed.
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
