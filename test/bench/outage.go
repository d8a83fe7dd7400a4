// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/refwatch/refwatch/test/bench/results"
)

// outage is what was seen of one outage.
type outage struct {
	want int64 // streams
	// down is when the driver killed the server. ready is when the server answered a request for a Secret again. It
	// accepts watches from then on, about a second before it is ready by its own account.
	down, ready time.Time
	samples     []sample
}

// measureOutage samples the open streams from before the server is killed until all are open again.
func (w *worker) measureOutage(ctx context.Context) error {
	const sampleInterval, recoveryTimeout = 50 * time.Millisecond, 7 * time.Minute
	w.streams.countRequests(w.config)
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	o := outage{want: int64(w.Set.Count), samples: []sample{w.streams.sample()}, down: time.Now()}
	w.loaded()
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	ready := make(chan time.Time, 1)
	go w.awaitAnswer(ctx, ready)
	err := wait.PollUntilContextCancel(ctx, sampleInterval, true, func(context.Context) (bool, error) {
		select {
		case o.ready = <-ready:
		default:
		}
		o.samples = append(o.samples, w.streams.sample())
		return !o.ready.IsZero() && o.samples[len(o.samples)-1].open >= o.want, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for all streams after the outage: %w", err)
	}
	o.ready = o.firstAnswer()
	if err := w.verifyStreams(ctx); err != nil {
		return err
	}
	recovery := o.recovery()
	w.round.Recovery = &recovery
	w.round.Values[w.Scenario+"-all-streams-seconds"] = recovery.Seconds
	for name, count := range map[string]func(sample) int64{
		"-requests": func(s sample) int64 { return s.requests }, "-dials": func(s sample) int64 { return s.dials },
	} {
		w.round.Values[w.Scenario+name+"-per-second-down"] = o.rate(count)
		w.round.Values[w.Scenario+name+"-per-second-peak"] = o.peak(count)
	}
	return nil
}

// verifyStreams waits until the server has a stream per Secret, and checks that Gets return updates of some.
func (w *worker) verifyStreams(ctx context.Context) error {
	const verified = 20
	if err := w.awaitWatches(ctx, w.Set.Count); err != nil {
		return err
	}
	for _, i := range rand.Perm(w.Set.Count)[:min(verified, w.Set.Count)] {
		if _, _, _, err := w.update(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// awaitAnswer sends the time of the server's first answer after the outage.
func (w *worker) awaitAnswer(ctx context.Context, ready chan<- time.Time) {
	const interval = 20 * time.Millisecond
	<-time.After(w.Outage)
	answers := func(ctx context.Context) (bool, error) { return w.server.answers(ctx), nil }
	if wait.PollUntilContextCancel(ctx, interval, true, answers) == nil {
		ready <- time.Now()
	}
}

// firstAnswer returns when the server was ready. A client that sends many requests delays the answer that awaitAnswer
// waits for. Then the first stream that is open again is the first answer.
func (o *outage) firstAnswer() time.Time {
	if next := o.lastWithoutStreams() + 1; next < len(o.samples) && o.samples[next].at.Before(o.ready) {
		return o.samples[next].at
	}
	return o.ready
}

// lastWithoutStreams returns the last sample without open streams, which ends the outage: streams do not break all at
// once.
func (o *outage) lastWithoutStreams() (last int) {
	for i, s := range o.samples {
		if s.open == 0 {
			last = i
		}
	}
	return last
}

// recovery returns the open streams until all are open.
func (o *outage) recovery() results.Recovery {
	at := o.lastWithoutStreams()
	for at < len(o.samples)-1 && o.samples[at].open < o.want {
		at++
	}
	return results.NewRecovery(o.samples[at].at.Sub(o.ready).Seconds(), func(seconds float64) int64 {
		return o.at(o.ready.Add(time.Duration(seconds * float64(time.Second)))).open
	})
}

// at returns the last sample before a time, or the first sample.
func (o *outage) at(when time.Time) sample {
	last := o.samples[0]
	for _, s := range o.samples {
		if s.at.After(when) {
			break
		}
		last = s
	}
	return last
}

// rate returns the increase per second while the server was down.
func (o *outage) rate(count func(sample) int64) float64 {
	return float64(count(o.at(o.ready))-count(o.at(o.down))) / o.ready.Sub(o.down).Seconds()
}

// peak returns the largest increase within a second after the server was ready.
func (o *outage) peak(count func(sample) int64) float64 {
	most := int64(0)
	for _, s := range o.samples {
		if since := s.at.Sub(o.ready); since > 0 {
			most = max(most, count(s)-count(o.at(s.at.Add(-min(since, time.Second)))))
		}
	}
	return float64(most)
}
