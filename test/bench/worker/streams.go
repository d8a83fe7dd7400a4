// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// sampleInterval is the time between two samples. Counting here costs next to nothing; to ask the server, which
// writes a megabyte of metrics for an answer, would disturb what is measured.
const sampleInterval = 50 * time.Millisecond

// streams counts what a client sends, and the watches that are open.
type streams struct {
	open, requests, dials atomic.Int64

	stop chan struct{} // ends the recording, which then sends what it has
	done chan []Sample
}

// count has the clients made of the configuration counted.
func (s *streams) count(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &countingTransport{s, next} })
	// What client-go dials with by default.
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		s.dials.Add(1)
		return dialer.DialContext(ctx, network, address)
	}
}

func (s *streams) sample() Sample {
	return Sample{time.Now().UnixMilli(), s.open.Load(), s.requests.Load(), s.dials.Load()}
}

func (s *streams) now(context.Context, none) (Sample, error) { return s.sample(), nil }

func (s *streams) record(ctx context.Context, _ none) (none, error) {
	s.stop, s.done = make(chan struct{}), make(chan []Sample, 1)
	go s.recordUntil(ctx, s.stop, s.done)
	return none{}, nil
}

func (s *streams) recordUntil(ctx context.Context, stop <-chan struct{}, done chan<- []Sample) {
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	samples := []Sample{s.sample()}
	for {
		select {
		case <-ticker.C:
			samples = append(samples, s.sample())
		case <-stop:
			done <- append(samples, s.sample())
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *streams) recorded(ctx context.Context, _ none) ([]Sample, error) {
	close(s.stop)
	select {
	case samples := <-s.done:
		return samples, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// countingTransport counts requests, and the watches that were accepted, until their bodies end.
type countingTransport struct {
	streams *streams
	next    http.RoundTripper
}

// WrappedRoundTripper is how client-go looks for what is inside.
func (c *countingTransport) WrappedRoundTripper() http.RoundTripper { return c.next }

// RoundTrip implements http.RoundTripper.
func (c *countingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	c.streams.requests.Add(1)
	response, err := c.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK && request.URL.Query().Get("watch") != "" {
		c.streams.open.Add(1)
		response.Body = &countedBody{ReadCloser: response.Body, over: func() { c.streams.open.Add(-1) }}
	}
	return response, err
}

// countedBody tells once when it is over, by its end or by being closed.
type countedBody struct {
	io.ReadCloser

	once sync.Once
	over func()
}

// Read implements io.Reader.
func (c *countedBody) Read(into []byte) (int, error) {
	n, err := c.ReadCloser.Read(into)
	if err != nil {
		c.once.Do(c.over)
	}
	return n, err
}

// Close implements io.Closer.
func (c *countedBody) Close() error {
	c.once.Do(c.over)
	return c.ReadCloser.Close()
}
