// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// readCounter counts the reads of a client that are in flight: lists, and watches that begin with the state. It holds
// them back until limit reads are in flight, so that a client that may send limit reads at a time is seen to do so.
type readCounter struct {
	limit int
	full  chan struct{} // closed once limit reads are in flight

	mu             sync.Mutex
	inFlight, peak int
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

// max returns the highest number of reads that were in flight at one time.
func (r *readCounter) max() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peak
}

func (r *readCounter) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight++
	if r.inFlight == r.limit && r.peak < r.limit {
		close(r.full)
	}
	r.peak = max(r.peak, r.inFlight)
}

func (r *readCounter) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inFlight--
}

type countingTripper struct {
	http.RoundTripper

	reads *readCounter
}

func (t countingTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if query.Has("watch") && !query.Has("sendInitialEvents") {
		return t.RoundTripper.RoundTrip(request)
	}
	t.reads.begin()
	defer t.reads.end()
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
