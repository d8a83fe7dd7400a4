// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
	"github.com/refwatch/refwatch/test/bench/results"
)

const (
	// workerCommand is the argument with which this program starts itself as a worker.
	workerCommand = "worker"
	resultsFile   = "results.json"
)

// options are set by flags.
type options struct {
	rounds, samples, calls int
	sizes                  []int         // the other scenarios have the last one
	period                 time.Duration // of updates
	maxOutage, maxLatency  time.Duration // for tests
	out, profiles          string
	uncompressed           bool // responses
	contenders             []contender.Kind
	scenarios              []scenario
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) > 0 && args[0] == workerCommand:
		return work(ctx, os.Stdin, stdout)
	case len(args) > 0 && args[0] == stubCommand:
		return serveStub(ctx, os.Stdin, stdout)
	case len(args) == 2 && args[0] == "page":
		return page(args[1])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return (&bench{options: o, stdout: stdout, stderr: stderr}).run(ctx)
}

// page writes a page and the plots from the saved results.
func page(file string) error {
	r, err := results.Load(filepath.Join("out", resultsFile))
	if err != nil {
		return err
	}
	if len(r.Figures) == 0 {
		return errors.New("there are no results in out: run the benchmark first")
	}
	return errors.Join(r.Plot("out"), os.WriteFile(file, []byte(r.Page()), 0o644))
}

const usage = `Bench compares refwatch with other ways to keep Secrets, on a real control plane. doc.go says what it measures.

  bench [flags]      measure, and write results.json and plots
  bench page FILE    write a page from the results in out

Flags:
`

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{
		rounds: 5, samples: 200, calls: 1_000_000, sizes: []int{1000, 5000}, period: 15 * time.Second,
		maxOutage: time.Minute, maxLatency: time.Minute, out: "out", contenders: contender.Kinds, scenarios: scenarios,
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.BoolFunc("quick", "measure small sizes once, into out/quick; later flags change that", func(string) error {
		o.rounds, o.samples, o.calls, o.sizes, o.out = 1, 50, 200_000, []int{1000}, filepath.Join("out", "quick")
		o.period = 3 * time.Second
		o.scenarios = slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return s.long })
		return nil
	})
	flags.IntVar(&o.rounds, "rounds", o.rounds, "how often each contender is measured; fewer times in scenarios whose round takes minutes")
	flags.DurationVar(&o.period, "period", o.period, "how long the scenarios update-stub, cpu, churn and neighbour update")
	flags.StringVar(&o.out, "out", o.out, "the `folder` for results and plots")
	flags.StringVar(&o.profiles, "profiles", "", "a `folder` for profiles of memory, cpu, neighbour and many; changes the figures")
	flags.BoolVar(&o.uncompressed, "disable-compression", false, "set DisableCompression in the rest.Config of all contenders")
	flags.Func("sizes", "how many Secrets memory is measured with; the last is that of the other scenarios (default 1000,5000)",
		list(&o.sizes, strconv.Atoi))
	flags.Func("contenders", "the contenders to measure (default all)", list(&o.contenders, namedKind))
	flags.Func("scenarios", "the scenarios to measure (default all)", list(&o.scenarios, scenarioOf))
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no command %q; see bench -help", flags.Arg(0))
	}
	if o.rounds < 1 || slices.Min(o.sizes) < 1 {
		return o, errors.New("-rounds and -sizes must be at least 1")
	}
	return o, nil
}

// list returns the function of a flag whose value is a list.
func list[T any](into *[]T, parse func(string) (T, error)) func(string) error {
	return func(list string) error {
		*into = nil
		for text := range strings.SplitSeq(list, ",") {
			value, err := parse(text)
			if err != nil {
				return err
			}
			*into = append(*into, value)
		}
		return nil
	}
}

// namedKind returns a contender that a flag names. refwatch-nethttp is then measured in every scenario.
func namedKind(name string) (contender.Kind, error) {
	kind, err := kindOf(name)
	kind.Special = false
	return kind, err
}

func kindOf(name string) (contender.Kind, error) {
	return find(contender.Kinds, name, func(k contender.Kind) string { return k.Name })
}

func scenarioOf(name string) (scenario, error) {
	return find(append(scenarios, warmUpScenario, steadyWriter, busyWriter), name, func(s scenario) string { return s.name })
}

func find[T any](all []T, name string, nameOf func(T) string) (none T, err error) {
	var names []string
	for _, one := range all {
		if nameOf(one) == name {
			return one, nil
		}
		names = append(names, nameOf(one))
	}
	return none, fmt.Errorf("there is no %q; there are %s", name, strings.Join(names, ", "))
}
