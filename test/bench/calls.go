// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/bench/worker"
	"github.com/refwatch/refwatch/test/bench/workload"
)

// warmUps is how many first Gets are not counted: they open the connection.
const warmUps = 5

func (b *bench) firstGetSteps() []step {
	expect := func(contender.Kind) time.Duration { return time.Second + time.Duration(b.samples)*4*time.Millisecond }
	return inTurn(b.rounds, b.contenders, "first-get", expect, b.measureFirstGet)
}

func (b *bench) measureFirstGet(ctx context.Context, kind contender.Kind) error {
	set := workload.NewSet("first-get", warmUps+b.samples)
	p, err := b.alone(ctx, worker.Start{Contender: kind.Name, Set: set, SecretsPerPod: 1})
	if err != nil {
		return err
	}
	defer p.close()
	took, err := call[[]float64](ctx, p, worker.OpFirstGet, b.samples)
	if err != nil {
		return err
	}
	b.results.AddPercentiles("first-get", "first-get", kind.Name, took)
	return nil
}

func (b *bench) getSteps() []step {
	expect := func(kind contender.Kind) time.Duration {
		each := 700 * time.Nanosecond
		if kind.Name == "controller-runtime" {
			each = 15 * time.Microsecond // it copies
		}
		return loading(kind, b.size) + time.Duration(b.calls)*each
	}
	return inTurn(b.rounds, b.contenders, "get", expect, b.measureGet)
}

func (b *bench) measureGet(ctx context.Context, kind contender.Kind) error {
	p, err := b.alone(ctx, worker.Start{Contender: kind.Name, Set: workload.NewSet("all", b.size)})
	if err != nil {
		return err
	}
	defer p.close()
	if _, err := call[worker.Loaded](ctx, p, worker.OpLoad, nil); err != nil {
		return err
	}
	costs, err := call[worker.Costs](ctx, p, worker.OpGet, b.calls)
	if err != nil {
		return err
	}
	b.addCost("get", "get", kind.Name, costs.Alone)
	b.addCost("get", "get-all-cores", kind.Name, costs.AllCores)
	return nil
}

func (b *bench) addCost(scenario, name, contender string, cost worker.Cost) {
	b.results.Add(scenario, name+"-ns", contender, cost.Nanoseconds)
	b.results.Add(scenario, name+"-bytes", contender, cost.Bytes)
	b.results.Add(scenario, name+"-allocs", contender, cost.Allocs)
}

func (b *bench) registerSteps() []step {
	var kinds []contender.Kind
	for _, kind := range b.contenders {
		if kind.Name == results.Refwatch || kind.Name == results.Kubelet {
			kinds = append(kinds, kind)
		}
	}
	expect := func(contender.Kind) time.Duration { return time.Duration(b.calls) * 3 * time.Microsecond }
	return inTurn(b.rounds, kinds, "register", expect, b.measureRegister)
}

// measureRegister needs no server.
func (b *bench) measureRegister(ctx context.Context, kind contender.Kind) error {
	p, err := startProcess(ctx)
	if err != nil {
		return err
	}
	defer p.close()
	costs, err := call[worker.Registered](ctx, p, worker.OpRegister, worker.RegisterArgs{Contender: kind.Name, Count: max(b.calls/10, 1)})
	if err != nil {
		return err
	}
	if costs.OverNothing != nil {
		b.addCost("register", "register-unregister", kind.Name, *costs.OverNothing)
	}
	if costs.OverIdleStore != nil {
		b.addCost("register", "register-unregister-idle-store", kind.Name, *costs.OverIdleStore)
	}
	return nil
}

func (b *bench) updateSteps() []step {
	expect := func(kind contender.Kind) time.Duration {
		return loading(kind, b.size) + time.Duration(b.samples)*8*time.Millisecond
	}
	return inTurn(b.rounds, b.contenders, "update", expect, b.measureUpdate)
}

func (b *bench) measureUpdate(ctx context.Context, kind contender.Kind) error {
	set := workload.NewSet("all", b.size)
	p, err := b.alone(ctx, worker.Start{Contender: kind.Name, Set: set, Follow: true})
	if err != nil {
		return err
	}
	defer p.close()
	if _, err := call[worker.Loaded](ctx, p, worker.OpLoad, nil); err != nil {
		return err
	}
	args := worker.UpdateArgs{Count: b.samples, Edition: b.edition + 1}
	b.edition += int64(b.samples)
	updated, err := call[worker.Updated](ctx, p, worker.OpUpdate, args)
	if err != nil {
		return err
	}
	b.results.AddPercentiles("update", "update-to-get", kind.Name, updated.GetSinceSent)
	b.results.AddPercentiles("update", "update-response-to-get", kind.Name, updated.GetSinceResponse)
	b.results.AddPercentiles("update", "update-to-change", kind.Name, updated.ChangeSinceSent)
	b.results.AddPercentiles("update", "update-response-to-change", kind.Name, updated.ChangeSinceResponse)
	return nil
}
