// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

const (
	// down is how long a server is dead, or answers differently.
	down = 3 * time.Second
	// paused is how long a process does not run.
	paused = 5 * time.Second
)

// The names of faults that are counted.
const (
	killed     = "kill -9 of an API server"
	rolled     = "rolling restarts"
	restored   = "restores of etcd"
	compacted  = "compactions of etcd"
	halfOpened = "half-open connections"
)

// servers returns the API servers in random order.
func (p *controlPlane) servers() []*e2e.Process {
	servers := []*e2e.Process{p.cluster.APIServer, p.replica.Process}
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	return servers
}

// killOne kills a server. New connections to it are closed at once, and a half of all is to it.
func (p *controlPlane) killOne(ctx context.Context, load *soak.Load) error {
	server := p.servers()[0]
	server.Kill()
	load.Count(killed, 1)
	hold(ctx, down)
	return server.Restart(ctx)
}

func (p *controlPlane) killAll(ctx context.Context, load *soak.Load) error {
	for _, server := range p.servers() {
		server.Kill()
		load.Count(killed, 1)
	}
	hold(ctx, down)
	return p.restartAll(ctx, load)
}

// restartAll restarts all servers at the same time.
func (p *controlPlane) restartAll(ctx context.Context, _ *soak.Load) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range p.servers() {
		group.Go(func() error { return server.Restart(ctx) })
	}
	return group.Wait()
}

func (p *controlPlane) roll(ctx context.Context, load *soak.Load) error { return p.rollWith(ctx, load) }

// rollWith restarts the servers one after another, with further arguments.
func (p *controlPlane) rollWith(ctx context.Context, load *soak.Load, args ...string) error {
	load.Count(rolled, 1)
	for _, server := range p.servers() {
		server.SetArgs(args...)
		if err := server.Restart(ctx); err != nil {
			return err
		}
	}
	return nil
}

// with returns a fault: the servers have other arguments for some time.
func with(args ...string) func(*controlPlane, context.Context, *soak.Load) error {
	return func(p *controlPlane, ctx context.Context, load *soak.Load) error {
		if err := p.rollWith(ctx, load, args...); err != nil {
			return err
		}
		hold(ctx, down)
		return p.rollWith(ctx, load)
	}
}

// pauseOne pauses a server, and cuts all connections: half of the new ones get no answer.
func (p *controlPlane) pauseOne(ctx context.Context, load *soak.Load) error {
	server := p.servers()[0]
	if err := server.Pause(); err != nil {
		return err
	}
	load.Cut()
	hold(ctx, paused)
	return server.Resume()
}

func (p *controlPlane) pauseAll(ctx context.Context, _ *soak.Load) error {
	for _, server := range p.servers() {
		if err := server.Pause(); err != nil {
			return err
		}
	}
	hold(ctx, paused)
	for _, server := range p.servers() {
		if err := server.Resume(); err != nil {
			return err
		}
	}
	return nil
}
