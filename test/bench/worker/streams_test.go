// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// counted returns streams that count what a client asks of a handler.
func counted(t *testing.T, handler http.HandlerFunc) (*streams, func(query string) *http.Response) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s := &streams{}
	config := &rest.Config{Host: server.URL}
	s.count(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return s, func(query string) *http.Response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
}

func (s *streams) check(t *testing.T, when string, open, requests int64) {
	t.Helper()
	got := s.sample()
	if got.Open != open || got.Requests != requests || got.Dials < 1 || got.UnixMillis == 0 {
		t.Errorf("%s: got %+v, want %d open and %d requests", when, got, open, requests)
	}
}

func TestStreamsCountOpenWatches(t *testing.T) {
	s, get := counted(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("refuse") {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "body")
	})
	list := get("?limit=1")
	s.check(t, "a list", 0, 1)
	refused := get("?watch=true&refuse")
	s.check(t, "a refused watch", 0, 2)
	one, another := get("?watch=true"), get("?watch=1")
	s.check(t, "two watches", 2, 4)
	if _, err := io.Copy(io.Discard, one.Body); err != nil {
		t.Fatal(err)
	}
	s.check(t, "after the end of one", 1, 4)
	_ = one.Body.Close()
	_ = another.Body.Close()
	s.check(t, "after both were closed", 0, 4)
	_ = list.Body.Close()
	_ = refused.Body.Close()
}

func TestStreamsRecord(t *testing.T) {
	s := &streams{}
	if _, err := s.record(t.Context(), none{}); err != nil {
		t.Fatal(err)
	}
	s.open.Add(3)
	samples, err := s.recorded(t.Context(), none{})
	if err != nil {
		t.Fatal(err)
	}
	if last := samples[len(samples)-1]; len(samples) < 2 || last.Open != 3 {
		t.Errorf("samples: got %v, want at least two, and 3 open in the last", samples)
	}
}

func TestStreamsRecordEndsWithTheWorker(t *testing.T) {
	s := &streams{}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := s.record(ctx, none{}); err != nil {
		t.Fatal(err)
	}
	cancel() // goleak sees whether that was enough
}
