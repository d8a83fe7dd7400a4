// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// reads counts the requests of a client that bring a state and have no answer
// yet: lists, and watches that begin with the state. The first ones are held back
// until there are limit of them: whoever may send so many at a time has done so
// then.
type reads struct {
	limit int
	full  chan struct{} // closed when limit reads were under way

	mu        sync.Mutex
	now, most int
}

func newReads(limit int) *reads { return &reads{limit: limit, full: make(chan struct{})} }

// of returns a copy of config whose requests are counted.
func (r *reads) of(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readsTripper{next, r} })
	return config
}

// atMost is how many there were at a time.
func (r *reads) atMost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

func (r *reads) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	if r.now == r.limit && r.most < r.limit {
		close(r.full)
	}
	r.most = max(r.most, r.now)
}

func (r *reads) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
}

type readsTripper struct {
	http.RoundTripper

	reads *reads
}

func (t readsTripper) RoundTrip(request *http.Request) (*http.Response, error) {
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

// WrappedRoundTripper implements apimachinery's RoundTripperWrapper, for who
// closes idle connections.
func (t readsTripper) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }
