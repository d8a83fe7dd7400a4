// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// heldSource is a source whose reports wait until they are released. It counts them.
type heldSource struct {
	source

	release          chan struct{}
	reports, atATime atomic.Int32
	maximum          atomic.Int32
}

func (s *heldSource) Statuses() iter.Seq[objectcache.Status] {
	s.reports.Add(1)
	s.maximum.Store(max(s.maximum.Load(), s.atATime.Add(1)))
	defer s.atATime.Add(-1)
	<-s.release
	return s.source.Statuses()
}

// held returns a handler of a heldSource of one object.
func held(t *testing.T) (*heldSource, *debug.Handler) {
	s := &heldSource{source: source{object("tls", objectcache.PhaseServing)}, release: make(chan struct{})}
	return s, newHandler(t, debug.Options{Sources: map[string]debug.Source{"secrets": s}})
}

// One report is made at a time. All that ask the same while one is being made have the next one, which is newer than
// their requests.
func TestRequestsShareAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, handler := held(t)
		var running sync.WaitGroup
		var codes [51]int
		for i := range codes {
			running.Go(func() { codes[i] = get(handler, "?format=json").Code })
			synctest.Wait()
		}
		close(source.release)
		running.Wait()
		for i, code := range codes {
			if code != http.StatusOK {
				t.Errorf("request %d: got status %d, want 200", i, code)
			}
		}
		if got := [2]int32{source.reports.Load(), source.maximum.Load()}; got != [2]int32{2, 1} {
			t.Errorf("got %d reports for 51 requests, at most %d at a time; want 2, and 1", got[0], got[1])
		}
	})
}

// Of different queries, too, one report is made at a time.
func TestDifferentQueriesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, handler := held(t)
		var running sync.WaitGroup
		for i := range 8 {
			running.Go(func() {
				if code := get(handler, fmt.Sprint("?filter=", i)).Code; code != http.StatusOK {
					t.Errorf("filter %d: got status %d, want 200", i, code)
				}
			})
		}
		synctest.Wait()
		close(source.release)
		running.Wait()
		if got := source.maximum.Load(); got != 1 {
			t.Errorf("got %d reports at a time, want 1", got)
		}
	})
}

// A client that goes away keeps nobody else from the report that it asked for first.
func TestFirstClientGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, handler := held(t)
		var running sync.WaitGroup
		running.Go(func() { get(handler, "") }) // holds the turn
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/?filter=tls", nil))
		})
		synctest.Wait()
		running.Go(func() {
			if got := get(handler, "?filter=tls"); got.Code != http.StatusOK || got.Body.Len() == 0 {
				t.Errorf("got status %d and %d bytes, want 200 and the page", got.Code, got.Body.Len())
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(source.release)
		running.Wait()
	})
}

// An answer that nobody waits for any more is not made, and takes no place: the page's script sends a query, and ends
// the one before, while somebody writes a filter.
func TestGoneClientsTakeNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, handler := held(t)
		var running sync.WaitGroup
		running.Go(func() { get(handler, "") }) // holds the turn
		synctest.Wait()
		for i := range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			for range 2 { // the second waits for the answer that the first would make
				running.Go(func() {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint("/?filter=", i), nil))
				})
				synctest.Wait()
			}
			cancel()
			synctest.Wait()
		}
		for i := range 7 {
			running.Go(func() {
				if code := get(handler, fmt.Sprint("?filter=other-", i)).Code; code != http.StatusOK {
					t.Errorf("filter other-%d after 100 clients that have gone: got status %d, want 200", i, code)
				}
			})
		}
		synctest.Wait()
		close(source.release)
		running.Wait()
		if got := source.reports.Load(); got != 8 {
			t.Errorf("got %d reports, want 8: none for clients that have gone", got)
		}
	})
}

// More requests than are answered at a time get 503, and when to ask again. They are answered later.
func TestTooManyRequests(t *testing.T) {
	tests := map[string]struct {
		count int
		query func(i int) string
	}{
		"equal ones":     {64, func(int) string { return "?filter=tls" }},
		"different ones": {8, func(i int) string { return fmt.Sprint("?filter=", i) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, handler := held(t)
				var running sync.WaitGroup
				for i := range test.count {
					running.Go(func() {
						if code := get(handler, test.query(i)).Code; code != http.StatusOK {
							t.Errorf("request %d: got status %d, want 200", i, code)
						}
					})
				}
				synctest.Wait()
				got := get(handler, test.query(test.count))
				if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "1" {
					t.Errorf("one more: got status %d and Retry-After %q, want 503 and 1", got.Code, got.Header().Get("Retry-After"))
				}
				close(source.release)
				running.Wait()
				if code := get(handler, test.query(test.count)).Code; code != http.StatusOK {
					t.Errorf("later: got status %d, want 200", code)
				}
			})
		})
	}
}

// A source that panics ends its own request only. Those that wait for the same report get 500, and the next one a
// report.
func TestSourcePanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := true
		release := make(chan struct{})
		handler := newHandler(t, debug.Options{Sources: map[string]debug.Source{"secrets": sourceFunc(func(func(objectcache.Status) bool) {
			if <-release; fails {
				panic("broken")
			}
		})}})
		var running sync.WaitGroup
		for range 2 { // the first holds the turn
			running.Go(func() {
				defer func() { _ = recover() }() // as net/http does
				get(handler, "")
			})
			synctest.Wait()
		}
		running.Go(func() {
			if code := get(handler, "").Code; code != http.StatusInternalServerError {
				t.Errorf("while it panics: got status %d, want 500", code)
			}
		})
		synctest.Wait()
		close(release)
		running.Wait()
		fails = false
		if code := get(handler, "").Code; code != http.StatusOK {
			t.Errorf("later: got status %d, want 200", code)
		}
	})
}

// sourceFunc is a source of one function.
type sourceFunc func(yield func(objectcache.Status) bool)

func (f sourceFunc) Statuses() iter.Seq[objectcache.Status] { return iter.Seq[objectcache.Status](f) }

// slowWriter is a client that reads nothing until it is released, or until the deadline that the handler sets.
type slowWriter struct {
	http.ResponseWriter

	release  chan struct{}
	deadline time.Time
}

func (w *slowWriter) SetWriteDeadline(deadline time.Time) error {
	w.deadline = deadline
	return nil
}

func (w *slowWriter) Write(b []byte) (int, error) {
	select {
	case <-w.release:
		return len(b), nil
	case <-time.After(time.Until(w.deadline)):
		return 0, context.DeadlineExceeded
	}
}

// Clients that do not read their answers keep nobody from a report, but for as many as there are answers at a time; and
// those only for 30 seconds.
func TestSlowClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := secrets(t, object("tls", objectcache.PhaseServing))
		var running sync.WaitGroup
		for i := range 8 {
			if code := get(handler, "").Code; code != http.StatusOK {
				t.Errorf("beside %d slow clients: got status %d, want 200", i, code)
			}
			running.Go(func() {
				w := &slowWriter{ResponseWriter: httptest.NewRecorder()}
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprint("/?filter=", i), nil))
			})
			synctest.Wait()
		}
		time.Sleep(29 * time.Second)
		if code := get(handler, "").Code; code != http.StatusServiceUnavailable {
			t.Errorf("beside 8 slow clients: got status %d, want 503", code)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if code := get(handler, "").Code; code != http.StatusOK {
			t.Errorf("after 30 s: got status %d, want 200", code)
		}
		running.Wait()
	})
}

// With 10,000 objects 50 requests at a time allocate no more than two reports, and eight answers that nobody reads
// take less memory than one report.
func TestMemoryOfManyRequests(t *testing.T) {
	var all []objectcache.Status
	for i := range 10_000 {
		all = append(all, object(fmt.Sprintf("secret-%06d", i), objectcache.PhaseServing, types.UID(fmt.Sprint("pod-", i))))
	}
	handler := secrets(t, all...)
	ask := func(query, encoding string, w http.ResponseWriter) {
		request := httptest.NewRequest(http.MethodGet, "/?format=json"+query, nil)
		request.Header.Set("Accept-Encoding", encoding)
		handler.ServeHTTP(w, request)
	}
	allocated := func(do func()) int64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		return int64(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // small enough
	}
	one := allocated(func() { ask("", "gzip", discard()) })
	fifty := allocated(func() {
		var running sync.WaitGroup
		for i := range 50 {
			encoding := "gzip" // decompression takes little memory, and much time
			if i%25 == 0 {
				encoding = "identity"
			}
			running.Go(func() { ask("", encoding, discard()) })
		}
		running.Wait()
	})
	if fifty > 5*one {
		t.Errorf("50 requests allocate %d MB, one %d MB: want at most five times as much", fifty>>20, one>>20)
	}

	live := func() int64 {
		runtime.GC()
		runtime.GC() // frees what is in pools
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc) //nolint:gosec // small enough
	}
	before := live()
	release := make(chan struct{})
	var running sync.WaitGroup
	for i := range 8 {
		w := &slowWriter{ResponseWriter: httptest.NewRecorder(), release: release}
		reached := make(chan struct{})
		running.Go(func() {
			ask(fmt.Sprint("&filter=secret&sort=", []string{"name", "-name", "age", "-age", "phase", "-phase", "owners", "-owners"}[i]), "gzip", notify{w, reached})
		})
		<-reached
	}
	kept := live() - before
	close(release)
	running.Wait()
	runtime.KeepAlive(handler)
	if kept > one {
		t.Errorf("8 answers that nobody reads keep %d MB, one report takes %d MB: want less", kept>>20, one>>20)
	}
	t.Logf("one request allocates %d MB, fifty %d MB, and 8 answers keep %d MB", one>>20, fifty>>20, kept>>20)
}

// notify is a client that says when the first bytes arrive.
type notify struct {
	*slowWriter

	reached chan struct{}
}

func (n notify) Write(b []byte) (int, error) {
	select {
	case <-n.reached:
	default:
		close(n.reached)
	}
	return n.slowWriter.Write(b)
}

// discard returns a client that keeps nothing.
func discard() http.ResponseWriter {
	w := &slowWriter{ResponseWriter: httptest.NewRecorder(), release: make(chan struct{})}
	close(w.release)
	return w
}
