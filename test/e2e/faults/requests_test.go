// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
)

// requests counts what a client asks for, by the name in the field selector. What was answered does not matter, nor
// whether a connection was to be had.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func newRequests() *requests { return &requests{counts: map[string]int{}} }

// roundTripper is a function as a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func (q *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if selector, err := fields.ParseSelector(request.URL.Query().Get("fieldSelector")); err == nil {
			name, _ := selector.RequiresExactMatch("metadata.name")
			q.add(name)
		}
		return next.RoundTrip(request)
	})
}

func (q *requests) add(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts[name]++
}

// reset forgets what was counted.
func (q *requests) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.counts)
}

// since returns how long an outage has lasted that began then, the largest count and the sum, and an error if a name
// was asked for more often than the back-off admits in that time.
func (q *requests) since(began time.Time) (outage time.Duration, most, sum int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	outage = time.Since(began) // not before the last request that is counted
	for name, count := range q.counts {
		most, sum = max(most, count), sum+count
		if limit := envelope(outage); count > limit {
			err = fmt.Errorf("%s: got %d requests in %v, want at most %d", name, count, outage, limit)
		}
	}
	return outage, most, sum, err
}

// envelope is how many attempts fit in an outage. Each comes after a pause; the shortest are 0.1 s, 0.2 s and so on,
// doubled up to 7.5 s (package reflector).
func envelope(outage time.Duration) (attempts int) {
	pause := 100 * time.Millisecond
	for left := outage - pause; left >= 0; left -= pause {
		attempts++
		pause = min(2*pause, 7500*time.Millisecond)
	}
	return attempts
}

func TestEnvelope(t *testing.T) {
	tests := map[string]struct {
		outage time.Duration
		want   int
	}{
		"too short for any":        {99 * time.Millisecond, 0},
		"one":                      {100 * time.Millisecond, 1},
		"0.1 + 0.2":                {300 * time.Millisecond, 2},
		"up to 6.4, which is 12.7": {12700 * time.Millisecond, 7},
		"and 7.5 twice":            {27700 * time.Millisecond, 9},
	}
	for name, test := range tests {
		if got := envelope(test.outage); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
