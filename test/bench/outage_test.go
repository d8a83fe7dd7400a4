// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/bench/worker"
)

// sampled is an outage from 1 s to 3 s, with 10 requests at 2 s, and 50 each at 3.2 s, 3.9 s and 4.5 s.
func sampled() outage {
	return outage{want: 3, down: time.UnixMilli(1000), ready: time.UnixMilli(3000), samples: []worker.Sample{
		{UnixMillis: 900, Open: 3, Requests: 3},
		{UnixMillis: 1000, Open: 3, Requests: 3},
		{UnixMillis: 1100, Requests: 3},
		{UnixMillis: 2000, Requests: 13},
		{UnixMillis: 2900, Requests: 13},
		{UnixMillis: 3200, Open: 1, Requests: 63},
		{UnixMillis: 3900, Open: 2, Requests: 113},
		{UnixMillis: 4500, Open: 3, Requests: 163},
	}}
}

func requests(s worker.Sample) int64 { return s.Requests }

func TestOutageRates(t *testing.T) {
	o := sampled()
	if got := o.rate(o.down, o.ready, requests); got != 5 {
		t.Errorf("requests per second while the server was down: got %v, want 5", got)
	}
	if got := o.peak(requests); got != 100 {
		t.Errorf("most requests in a second after it was back: got %v, want 100", got)
	}
	if got := (outage{ready: o.ready, samples: o.samples[:2]}).peak(requests); got != 0 {
		t.Errorf("most requests of an outage without an end: got %v, want 0", got)
	}
}

func TestOutageRecovery(t *testing.T) {
	recovery := sampled().recovery()
	if got := recovery.First(); got != 0.2 {
		t.Errorf("first stream: got %v, want 0.2", got)
	}
	if got := recovery.All(); got != 1.5 {
		t.Errorf("all streams: got %v, want 1.5", got)
	}
	// The sample at 2 s is as those around it.
	want := []float64{-2.1, -2, -1.9, -0.1, 0.2, 0.9, 1.5}
	if !slices.Equal(recovery.Seconds, want) || len(recovery.Open) != len(want) {
		t.Errorf("samples: got %v and %d streams, want %v", recovery.Seconds, len(recovery.Open), want)
	}
}
