// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// requests counts what a client tries. What was answered does not matter, nor whether a connection was to be had.
type requests struct {
	sent   atomic.Int64
	dialed atomic.Int64
	dialer net.Dialer
}

// roundTripper is a function as a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// of returns a copy of config whose clients are counted.
func (q *requests) of(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			q.sent.Add(1)
			return next.RoundTrip(request)
		})
	})
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		q.dialed.Add(1)
		return q.dialer.DialContext(ctx, network, address)
	}
	return config
}

// reset forgets what was counted.
func (q *requests) reset() {
	q.sent.Store(0)
	q.dialed.Store(0)
}

// rate says in words how many requests and connections a second were tried in the time since the last reset.
func (q *requests) rate(since time.Duration) string {
	sent, dialed := float64(q.sent.Load())/since.Seconds(), float64(q.dialed.Load())/since.Seconds()
	return fmt.Sprintf("%.1f requests and %.1f dials a second", sent, dialed)
}

// since returns the length of an outage that began then, and how many requests and connections were tried, and returns an error if those
// are more than the store's gate lets through in that time.
func (q *requests) since(began time.Time) (outage time.Duration, tried string, err error) {
	sent, dialed := q.sent.Load(), q.dialed.Load()
	outage = time.Since(began) // not before the last request that is counted
	limit := envelope(outage)
	if sent > limit || dialed > limit {
		err = fmt.Errorf("got %d requests and %d connections in %v, want at most %d", sent, dialed, outage, limit)
	}
	return outage, fmt.Sprintf("%d requests, %d connections tried; %d admitted", sent, dialed, limit), err
}

// envelope is how many attempts fit in an outage: the 32 that a gate lets be under way, one for each of the up to 15
// failures before the one that proves the outage, a probe at once, and then the others. Each of these comes after a
// pause; the shortest is 0.25 s at first, and grows by 30 % each time up to 2.5 s (package reflector).
func envelope(outage time.Duration) (attempts int64) {
	attempts = 32 + 15 + 1
	pause := 250 * time.Millisecond
	for left := outage - pause; left >= 0; left -= pause {
		attempts++
		pause = min(pause*13/10, 2500*time.Millisecond)
	}
	return attempts
}

func TestEnvelope(t *testing.T) {
	tests := map[string]struct {
		outage time.Duration
		want   int64
	}{
		"too short for a probe":     {249 * time.Millisecond, 48},
		"one":                       {250 * time.Millisecond, 49},
		"0.25 + 0.325":              {575 * time.Millisecond, 50},
		"up to 2.04, which is 8.01": {8010 * time.Millisecond, 57},
		"and 2.5 twice":             {13010 * time.Millisecond, 59},
		"almost another 2.5":        {15 * time.Second, 59},
	}
	for name, test := range tests {
		if got := envelope(test.outage); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
