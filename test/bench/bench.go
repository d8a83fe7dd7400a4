// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
)

// bench is one run.
type bench struct {
	options
	stdout, stderr io.Writer

	server  *server          // nil until something needs it
	results *results.Results // of the scenario under way
	edition int64            // of the last update; every update has one of its own
}

// scenario measures some figures.
type scenario struct {
	name  string
	steps func(*bench) []step
}

// scenarios are all of them, in the order in which they run.
func scenarios() []scenario {
	return []scenario{
		{"memory", (*bench).memorySteps}, // and sync
		{"first-get", (*bench).firstGetSteps},
		{"get", (*bench).getSteps},
		{"register", (*bench).registerSteps},
		{"update", (*bench).updateSteps},
		{"cpu", (*bench).cpuSteps},
		{"outage-2s", func(b *bench) []step { return b.outageSteps("outage-2s", 2*time.Second) }},
		{"outage-60s", func(b *bench) []step { return b.outageSteps("outage-60s", b.longOutage) }},
	}
}

// step is one contender's turn.
type step struct {
	text   string
	expect time.Duration // roughly, for the estimate
	run    func(context.Context) error
}

func newBench(options options, stdout, stderr io.Writer) *bench {
	return &bench{options: options, stdout: stdout, stderr: stderr}
}

// run measures one scenario after another, and saves the results after each.
func (b *bench) run(ctx context.Context) (err error) {
	file := filepath.Join(b.out, resultsFile)
	all, err := results.Load(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stopServer()) }()
	if b.quick {
		b.say("this is a look, not a result")
	}
	progress := newProgress(b)
	for _, scenario := range b.scenarios {
		b.results = results.New()
		b.results.Environment = b.environment(all.Environment)
		for _, step := range scenario.steps(b) {
			if err := progress.run(ctx, step); err != nil {
				return fmt.Errorf("%s: %w", step.text, err)
			}
		}
		if b.server != nil {
			b.results.Environment.Kubernetes = b.server.version
		}
		all.Merge(b.results)
		if err := errors.Join(all.Save(file), all.Plot(b.out)); err != nil {
			return err
		}
		for _, name := range all.Names(scenario.name) {
			fmt.Fprintln(b.stdout, all.Line(name))
		}
	}
	return nil
}

// environment is that of this run. The server's version is known when one has been started.
func (b *bench) environment(before results.Environment) results.Environment {
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			switch module.Path {
			case "k8s.io/kubernetes", "sigs.k8s.io/controller-runtime":
				modules[module.Path] = module.Version
			case "k8s.io/client-go":
				if module.Replace != nil {
					modules[module.Path] = module.Replace.Version
				}
			}
		}
	}
	return results.Environment{
		Date: time.Now().UTC().Format(time.RFC3339), CPUs: runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Kubernetes: before.Kubernetes,
		Modules: modules, Quick: b.quick, Sizes: b.sizes, Size: b.size, Rounds: b.rounds,
	}
}

// inTurn returns a step for each contender, round after round: A B C A B C.
func inTurn(rounds int, kinds []contender.Kind, name string, expect func(contender.Kind) time.Duration,
	run func(context.Context, contender.Kind) error) []step {
	var steps []step
	for round := range rounds {
		for _, kind := range kinds {
			steps = append(steps, step{
				text:   fmt.Sprintf("%s, round %d of %d, %s", name, round+1, rounds, kind.Name),
				expect: expect(kind),
				run:    func(ctx context.Context) error { return run(ctx, kind) },
			})
		}
	}
	return steps
}

// loading is how long a contender needs for that many secrets, roughly and with what surrounds it.
func loading(kind contender.Kind, size int) time.Duration {
	each := 1500 * time.Microsecond
	switch kind.Name {
	case results.Refwatch, results.Floor, "refwatch-clientgo":
		each = 500 * time.Microsecond
	case "controller-runtime":
		each = 100 * time.Microsecond
	}
	return time.Second + time.Duration(size)*each
}

// controlPlane starts the control plane at its first call.
func (b *bench) controlPlane(ctx context.Context) (*server, error) {
	if b.server == nil {
		server, err := startServer(ctx, b.stderr)
		if err != nil {
			return nil, err
		}
		b.server = server
	}
	return b.server, nil
}

func (b *bench) stopServer() error {
	if b.server == nil {
		return nil
	}
	err := b.server.cluster.Stop()
	b.server = nil
	return err
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// executable is this program, which is its own worker.
func executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	return path, nil
}
