// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// countedFor is how long a read is counted: less than the time after which a Gate takes an opening as hung, and begins
// another.
const countedFor = 50 * time.Millisecond

// readCounter counts the reads of a client that are in flight: lists, and watches that begin with the state. It holds
// them back until limit reads are in flight. So a client that never sends limit reads at a time gets no answer.
type readCounter struct {
	limit int
	full  chan struct{} // closed once limit reads have begun

	mu                    sync.Mutex
	begun, inFlight, peak int
}

func newReadCounter(limit int) *readCounter {
	return &readCounter{limit: limit, full: make(chan struct{})}
}

// wrap returns a copy of config. Its clients' reads are counted.
func (r *readCounter) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTripper{next, r} })
	return config
}

// max returns the highest number of reads that were in flight at one time. A read that takes long is not counted.
func (r *readCounter) max() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peak
}

// begin counts a read, until end is called or countedFor has passed.
func (r *readCounter) begin() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
	r.peak = max(r.peak, r.inFlight)
	if r.begun++; r.begun == r.limit {
		close(r.full)
	}
	once := sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.inFlight--
	})
	timer := time.AfterFunc(countedFor, once)
	return func() {
		timer.Stop()
		once()
	}
}

type countingTripper struct {
	http.RoundTripper

	reads *readCounter
}

func (t countingTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	isGet := !query.Has("fieldSelector") // of one object, beside its opening
	if isGet || query.Has("watch") && !query.Has("sendInitialEvents") {
		return t.RoundTripper.RoundTrip(request)
	}
	defer t.reads.begin()()
	select {
	case <-t.reads.full:
		return t.RoundTripper.RoundTrip(request)
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
}

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, so that CloseIdleConnectionsFor finds the
// transport.
func (t countingTripper) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
