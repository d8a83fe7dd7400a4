// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache/resource"
)

// holder holds back the answers to first reads: lists, and watches that begin with the state. It counts the GETs.
type holder struct {
	http.RoundTripper

	read    chan struct{} // closed when the server has answered a first read
	once    *sync.Once
	release chan struct{}
	gets    *atomic.Int32
}

func (h holder) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	response, err := h.RoundTripper.RoundTrip(request)
	switch {
	case !query.Has("fieldSelector"):
		h.gets.Add(1)
	case !query.Has("watch"), query.Has("sendInitialEvents"):
		h.once.Do(func() { close(h.read) })
		select {
		case <-h.release:
		case <-request.Context().Done():
		}
	}
	return response, err
}

// slowFirstRead has the server answer a first read before an update, and the client get the answer after it.
func slowFirstRead(s *suite) {
	h := holder{read: make(chan struct{}), once: new(sync.Once), release: make(chan struct{}), gets: new(atomic.Int32)}
	config := rest.CopyConfig(s.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { h.RoundTripper = next; return h })
	store := newStore(s, resource.Secrets(s.clientFor(config)))
	s.start(store)
	wait := s.observe(store)
	s.create("a", "1")
	store.AddReference(s.namespace, "a", "pod")
	<-h.read
	s.update("a", "2")
	s.wantObject(store, "a", "2")
	if got := h.gets.Load(); got == 0 {
		s.Error("GETs: got none, want one or more")
	}
	close(h.release)
	for range 100 {
		s.wantObject(store, "a", "2")
	}
	s.wantStreams("after the first read", 1)
	s.wantObject(store, "a", "2")
	s.update("a", "3")
	wait("a", "3")
	s.wantObject(store, "a", "3")
}
