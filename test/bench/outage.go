// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/bench/worker"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// recoveryTimeout is how long after the server is ready the streams may take to be open again.
const recoveryTimeout = 6 * time.Minute

// outages are survived by those that keep a stream per object. The informer behaves as kubelet does, which is the
// same reflector, and takes as long.
var outages = []string{results.Refwatch, results.Kubelet, results.Floor, "refwatch-clientgo"}

func (b *bench) outageSteps(name string, away time.Duration) []step {
	kinds := slices.DeleteFunc(slices.Clone(b.contenders), func(kind contender.Kind) bool {
		return !slices.Contains(outages, kind.Name)
	})
	expect := func(kind contender.Kind) time.Duration {
		back := 5 * time.Second
		if kind.Name == results.Kubelet {
			back = 10*time.Second + away*5/3
		}
		return loading(kind, b.size) + away + 6*time.Second + back
	}
	fresh := step{text: name + ", a control plane of its own", expect: 20 * time.Second, run: func(ctx context.Context) error {
		if err := b.stopServer(); err != nil {
			return err
		}
		return b.warmUp(workload.NewSet("all", b.size)).run(ctx)
	}}
	return append([]step{fresh}, inTurn(b.outageRounds, kinds, name, expect, func(ctx context.Context, kind contender.Kind) error {
		return b.measureOutage(ctx, name, kind, away)
	})...)
}

func (b *bench) measureOutage(ctx context.Context, name string, kind contender.Kind, away time.Duration) error {
	set := workload.NewSet("all", b.size)
	p, err := b.alone(ctx, worker.Start{Contender: kind.Name, Set: set, CountStreams: true})
	if err != nil {
		return err
	}
	defer p.close()
	if _, err := call[worker.Loaded](ctx, p, worker.OpLoad, nil); err != nil {
		return err
	}
	if err := b.server.awaitStreams(ctx, set.Count); err != nil {
		return err
	}
	if err := do(ctx, p, worker.OpRecord, nil); err != nil {
		return err
	}
	o := outage{want: set.Count}
	cpu, err := b.used(ctx, []*process{p}, func() error { return b.outage(ctx, p, away, &o) })
	if err != nil {
		return err
	}
	if o.samples, err = call[[]worker.Sample](ctx, p, worker.OpRecorded, nil); err != nil {
		return err
	}
	// What the worker counted is what the server has, and the streams tell of what happens.
	if err := b.server.awaitStreams(ctx, set.Count); err != nil {
		return err
	}
	if err := b.server.verify(ctx, p, set, &b.edition); err != nil {
		return err
	}
	b.addOutage(name, kind, o, cpu[0])
	return nil
}

// outage is one, as the worker saw it.
type outage struct {
	want int
	// down is when the server was gone, and ready when it answered a request for a secret again. It takes in watches
	// at that time, about a second before it calls itself ready.
	down, ready time.Time
	samples     []worker.Sample
}

// outage kills the server, starts it again after a while, and waits until all streams are open.
func (b *bench) outage(ctx context.Context, p *process, away time.Duration, o *outage) error {
	b.server.cluster.APIServer.Kill()
	o.down = time.Now()
	if err := worker.Pause(ctx, away); err != nil {
		return err
	}
	answered := b.server.answers(ctx)
	if err := b.server.cluster.APIServer.Restart(ctx); err != nil {
		return err
	}
	select {
	case o.ready = <-answered:
	case <-ctx.Done():
		return ctx.Err()
	}
	return poll(ctx, 100*time.Millisecond, recoveryTimeout, func(ctx context.Context) (bool, error) {
		now, err := call[worker.Sample](ctx, p, worker.OpStreams, nil)
		return now.Open >= int64(o.want), err
	})
}

func (b *bench) addOutage(name string, kind contender.Kind, o outage, cpu float64) {
	recovery := o.recovery()
	b.results.AddRecovery(name, kind.Name, recovery)
	add := func(figure string, value float64) {
		if !math.IsNaN(value) {
			b.results.Add(name, name+"-"+figure, kind.Name, value)
		}
	}
	add("first-stream-seconds", recovery.First())
	add("all-streams-seconds", recovery.All())
	requests := func(s worker.Sample) int64 { return s.Requests }
	dials := func(s worker.Sample) int64 { return s.Dials }
	add("requests-per-second-down", o.rate(o.down, o.ready, requests))
	add("requests-per-second-peak", o.peak(requests))
	add("dials-per-second-down", o.rate(o.down, o.ready, dials))
	add("dials-per-second-peak", o.peak(dials))
	add("cpu-seconds", cpu)
}

// recovery leaves out samples that are like those before and after.
func (o outage) recovery() results.Recovery {
	recovery := results.Recovery{Want: o.want}
	for i, s := range o.samples {
		if i > 0 && i < len(o.samples)-1 && o.samples[i-1].Open == s.Open && o.samples[i+1].Open == s.Open {
			continue
		}
		recovery.Seconds = append(recovery.Seconds, float64(s.UnixMillis-o.ready.UnixMilli())/1000)
		recovery.Open = append(recovery.Open, s.Open)
	}
	return recovery
}

// rate returns the increase per second between two times.
func (o outage) rate(from, to time.Time, count func(worker.Sample) int64) float64 {
	return float64(count(o.at(to))-count(o.at(from))) / to.Sub(from).Seconds()
}

// at returns the last sample before a time.
func (o outage) at(when time.Time) worker.Sample {
	last := o.samples[0]
	for _, s := range o.samples {
		if s.UnixMillis > when.UnixMilli() {
			break
		}
		last = s
	}
	return last
}

// peak returns the largest increase within a second after the server was ready.
func (o outage) peak(count func(worker.Sample) int64) float64 {
	most := int64(0)
	for _, s := range o.samples {
		now := time.UnixMilli(s.UnixMillis)
		from := now.Add(-time.Second)
		if from.Before(o.ready) {
			from = o.ready
		}
		if now.After(from) {
			most = max(most, count(s)-count(o.at(from)))
		}
	}
	return float64(most)
}
