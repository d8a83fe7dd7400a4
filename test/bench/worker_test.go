// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
)

// deep recurses, and then calls leaf.
func deep(depth int, leaf func()) byte {
	var frame [512]byte
	if depth == 0 {
		leaf()
		return frame[0]
	}
	return deep(depth-1, leaf) + frame[depth%len(frame)]
}

// TestMemoryCountsStacks: a deeper stack in the goroutine of each stream must show.
func TestMemoryCountsStacks(t *testing.T) {
	const goroutines, depth = 100, 60 // 32 KB of each
	before := memoryOfProcess()
	started, stop, done := make(chan byte), make(chan struct{}), make(chan byte)
	for range goroutines {
		go func() {
			done <- deep(depth, func() {
				started <- 1
				<-stop
			})
		}()
	}
	for range goroutines {
		<-started
	}
	after := memoryOfProcess()
	close(stop)
	for range goroutines {
		<-done
	}
	if got := (after.stacks - before.stacks) / goroutines; got < depth*512 {
		t.Errorf("stacks per goroutine: got %.0f bytes more, want at least %d", got, depth*512)
	}
	if got := after.goroutines - before.goroutines; got != goroutines {
		t.Errorf("goroutines: got %v more, want %d", got, goroutines)
	}
}

func TestStreams(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("refuse") {
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "body")
	}))
	defer server.Close()
	var s streams
	config := &rest.Config{Host: server.URL}
	s.count(config)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	get := func(query string, open, requests int64) io.ReadCloser {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.sample(); got.open != open || got.requests != requests || got.dials < 1 {
			t.Errorf("%s: got %+v, want %d open and %d requests", query, got, open, requests)
		}
		return response.Body
	}
	list, refused := get("?limit=1", 0, 1), get("?watch=true&refuse", 0, 2)
	one, another := get("?watch=true", 1, 3), get("?watch=1", 2, 4)
	if _, err := io.Copy(io.Discard, one); err != nil {
		t.Fatal(err)
	}
	if got := s.sample().open; got != 1 {
		t.Errorf("after the end of one: got %d open, want 1", got)
	}
	for _, body := range []io.Closer{list, refused, one, another} {
		_ = body.Close()
	}
	if got := s.sample().open; got != 0 {
		t.Errorf("after all were closed: got %d open, want 0", got)
	}
}

func TestSet(t *testing.T) {
	s := set{"test", 45}
	seen := map[string]int{}
	for _, pod := range s.pods(20) {
		manager.VisitPodSecretNames(pod, func(name string) { seen[name]++ })
	}
	for i := range s.Count {
		if seen[nameOf(i)] != 1 {
			t.Errorf("references to %s: got %d, want 1", nameOf(i), seen[nameOf(i)])
		}
	}
	if err := s.check(s.secret(3, newEdition()), 3); err != nil {
		t.Errorf("check of the right Secret: got %v, want nil", err)
	}
	other := s.secret(3, 0)
	other.Data = s.secret(4, 0).Data
	if err := s.check(other, 3); err == nil || strings.Contains(err.Error(), "...") {
		t.Errorf("check of the value of another Secret: got %v, want an error without the value", err)
	}
	if s.check(nil, 3) == nil || s.check(s.secret(4, 0), 3) == nil {
		t.Error("check of no Secret, and of another: got nil, want errors")
	}
}
