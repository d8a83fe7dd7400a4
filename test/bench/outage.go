// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	const sampleInterval, recoveryTimeout, verified = 50 * time.Millisecond, 7 * time.Minute, 20
	w.streams.count(w.config)
	if err := w.startAndLoad(ctx); err != nil {
		return err
	}
	o := outage{want: int64(w.Set.Count), samples: []sample{w.streams.sample()}, down: time.Now()}
	w.loaded()
	ctx, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	ready := make(chan time.Time, 1)
	go w.awaitAnswer(ctx, ready)
	err := poll(ctx, sampleInterval, func() (bool, error) {
		select {
		case o.ready = <-ready:
		default:
		}
		o.samples = append(o.samples, w.streams.sample())
		return !o.ready.IsZero() && o.samples[len(o.samples)-1].open >= o.want, nil
	})
	if err != nil {
		return err
	}
	// The server has as many streams as were counted, and they deliver updates.
	if err := w.server.awaitStreams(ctx, w.Set.Count); err != nil {
		return err
	}
	for _, i := range rand.Perm(w.Set.Count)[:min(verified, w.Set.Count)] {
		secret := w.Set.secret(i, newEdition())
		if _, err := w.server.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			return err
		}
		if err := poll(ctx, retryInterval, func() (bool, error) { return w.has(ctx, secret), nil }); err != nil {
			return fmt.Errorf("waiting until Get returns an update of %s: %w", secret.Name, err)
		}
	}
	o.addTo(&w.round, w.Scenario)
	return nil
}

// awaitAnswer sends the time of the server's first answer after the outage.
func (w *worker) awaitAnswer(ctx context.Context, ready chan<- time.Time) {
	const answerInterval = 20 * time.Millisecond
	if pause(ctx, w.Outage) == nil &&
		poll(ctx, answerInterval, func() (bool, error) { return w.server.answers(ctx), nil }) == nil {
		ready <- time.Now()
	}
}

func (o *outage) addTo(round *results.Round, scenario string) {
	recovery := o.recovery()
	round.Recovery = &recovery
	round.Values[scenario+"-all-streams-seconds"] = recovery.Seconds
	for name, count := range map[string]func(sample) int64{
		"requests": func(s sample) int64 { return s.requests }, "dials": func(s sample) int64 { return s.dials },
	} {
		round.Values[scenario+"-"+name+"-per-second-down"] = o.rate(count)
		round.Values[scenario+"-"+name+"-per-second-peak"] = o.peak(count)
	}
}

// recovery returns the open streams until all are open. Streams do not break all at once: the last sample without any
// ends the outage.
func (o *outage) recovery() results.Recovery {
	at := 0
	for i, s := range o.samples {
		if s.open == 0 {
			at = i
		}
	}
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
		if s.at.After(o.ready) {
			from := o.ready
			if second := s.at.Add(-time.Second); second.After(from) {
				from = second
			}
			most = max(most, count(s)-count(o.at(from)))
		}
	}
	return float64(most)
}
