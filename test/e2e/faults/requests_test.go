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

// requests counts the requests and dials of a client, whether they succeed or not, and the bytes that it receives.
type requests struct {
	sent     atomic.Int64
	dialed   atomic.Int64
	received atomic.Int64
}

// countedConn counts the bytes that are read.
type countedConn struct {
	net.Conn

	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// roundTripper makes a function a [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// wrap returns a copy of config that counts the requests of its clients. It dials as config does.
func (q *requests) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			q.sent.Add(1)
			return next.RoundTrip(request)
		})
	})
	dial := config.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		q.dialed.Add(1)
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return countedConn{conn, &q.received}, nil
	}
	return config
}

// reset sets the counts to zero.
func (q *requests) reset() {
	q.sent.Store(0)
	q.dialed.Store(0)
	q.received.Store(0)
}

// rate returns a text with the requests and dials a second since the last reset, which was elapsed ago.
func (q *requests) rate(elapsed time.Duration) string {
	sent, dialed := float64(q.sent.Load())/elapsed.Seconds(), float64(q.dialed.Load())/elapsed.Seconds()
	return fmt.Sprintf("%.1f requests and %.1f dials a second", sent, dialed)
}

// since returns the length of an outage that began at a time, and a text with the number of requests and dials. It
// returns an error if there were more than the store's Gate may admit.
func (q *requests) since(began time.Time) (outage time.Duration, text string, err error) {
	sent, dialed := q.sent.Load(), q.dialed.Load()
	outage = time.Since(began) // after the last request that is counted
	limit := maxAttempts(outage)
	if sent > limit || dialed > limit {
		err = fmt.Errorf("got %d requests and %d dials in %v, want at most %d", sent, dialed, outage, limit)
	}
	return outage, fmt.Sprintf("%d requests, %d dials; at most %d allowed", sent, dialed, limit), err
}

// maxAttempts returns how many attempts a Gate may admit in an outage: 32 that are under way at its start, one for each
// of the up to 15 failures before the outage is noticed, a probe at once, and further probes after pauses. The shortest
// possible pause is 0.25 s at first, and grows by 30 % each time, up to 2.5 s (package reflector).
func maxAttempts(outage time.Duration) (attempts int64) {
	attempts = 32 + 15 + 1
	pause := 250 * time.Millisecond
	for left := outage - pause; left >= 0; left -= pause {
		attempts++
		pause = min(pause*13/10, 2500*time.Millisecond)
	}
	return attempts
}

func TestMaxAttempts(t *testing.T) {
	tests := map[string]struct {
		outage time.Duration
		want   int64
	}{
		"shorter than the first pause": {249 * time.Millisecond, 48},
		"one pause":                    {250 * time.Millisecond, 49},
		"two pauses: 0.25 + 0.325":     {575 * time.Millisecond, 50},
		"pauses up to 2.04":            {8010 * time.Millisecond, 57},
		"and two pauses of 2.5":        {13010 * time.Millisecond, 59},
		"almost a third pause of 2.5":  {15 * time.Second, 59},
	}
	for name, test := range tests {
		if got := maxAttempts(test.outage); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
