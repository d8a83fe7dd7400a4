// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/bench/contender"
)

const (
	defaultOut  = "out"
	resultsFile = "results.json"
)

// options are what the command line says.
type options struct {
	rounds, outageRounds int
	sizes                []int // of memory
	size                 int   // of the rest
	samples              int   // of first-get and update
	calls                int   // of get and register
	idle, updating       time.Duration
	longOutage           time.Duration // a minute, but for tests
	quick                bool
	out                  string
	contenders           []contender.Kind
	scenarios            []scenario
}

// quick are the values of flags in a quick run, where they are not given.
var quick = map[string]string{
	"rounds": "1", "outage-rounds": "1", "sizes": "1000", "n": "1000", "samples": "50", "calls": "200000",
	"idle": "5s", "updating": "5s", "out": filepath.Join(defaultOut, "quick"),
	"scenarios": "memory,first-get,get,register,update,cpu,outage-2s",
}

const usage = `bench compares refwatch with other ways to keep secrets, on a real control plane. See doc.go for what is measured.

  bench [flags]                      measure, and write results.json and plots
  bench table [-from DIR] -o FILE    write a page from results that are there

Flags:
`

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{longOutage: time.Minute}
	var sizes, contenders, scenarios string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rounds, "rounds", 5, "how often the contenders take turns")
	flags.IntVar(&o.outageRounds, "outage-rounds", 5, "the same, for outages")
	flags.StringVar(&sizes, "sizes", "1000,5000,10000", "how many secrets memory and sync are measured with")
	flags.IntVar(&o.size, "n", 5000, "how many secrets the rest is measured with")
	flags.IntVar(&o.samples, "samples", 200, "how many first Gets, and updates, each round has")
	flags.IntVar(&o.calls, "calls", 1_000_000, "how many calls get and register make")
	flags.DurationVar(&o.idle, "idle", time.Minute, "how long cpu is idle")
	flags.DurationVar(&o.updating, "updating", 30*time.Second, "how long cpu has 100 updates a second")
	flags.BoolVar(&o.quick, "quick", false, "small sizes and few rounds: a look, not a result")
	flags.StringVar(&o.out, "out", defaultOut, "the `folder` for "+resultsFile+" and plots")
	flags.StringVar(&contenders, "contenders", strings.Join(contenderNames(), ","), "who takes part; a scenario that is measured again loses its figures of the others")
	flags.StringVar(&scenarios, "scenarios", strings.Join(scenarioNames(), ","), "what is measured; only its figures are replaced")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there is no command %q; see bench -help", flags.Arg(0))
	}
	if o.quick {
		if err := applyQuick(flags); err != nil {
			return o, err
		}
	}
	return o, errors.Join(o.setSizes(sizes), o.setContenders(contenders), o.setScenarios(scenarios), o.check())
}

// applyQuick sets the flags that were not given.
func applyQuick(flags *flag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range quick {
		if !given[name] {
			if err := flags.Set(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *options) setSizes(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("-sizes: %q is not a number", text)
		}
		o.sizes = append(o.sizes, size)
	}
	return nil
}

func (o *options) setContenders(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		kind, err := contender.ByName(name)
		if err != nil {
			return fmt.Errorf("-contenders: %w; there are %s", err, strings.Join(contenderNames(), ", "))
		}
		o.contenders = append(o.contenders, kind)
	}
	return nil
}

func (o *options) setScenarios(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		at := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
		if at < 0 {
			return fmt.Errorf("-scenarios: there is no %q; there are %s", name, strings.Join(scenarioNames(), ", "))
		}
		o.scenarios = append(o.scenarios, scenarios()[at])
	}
	return nil
}

// check refuses numbers that would measure nothing, or have names of different lengths.
func (o *options) check() error {
	for _, number := range append([]int{o.rounds, o.outageRounds, o.size, o.samples, o.calls}, o.sizes...) {
		if number < 1 {
			return fmt.Errorf("%d is too small: rounds, sizes, samples and calls are at least 1", number)
		}
	}
	if o.idle <= 0 || o.updating <= 0 {
		return errors.New("-idle and -updating are more than 0")
	}
	return nil
}

func contenderNames() []string {
	var names []string
	for _, kind := range contender.Kinds {
		names = append(names, kind.Name)
	}
	return names
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}
