// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

var (
	// errSurvived means that no test has noticed a mutant.
	errSurvived = errors.New("the mutant survived")
	// errNotBuilt means that a mutant does not compile.
	errNotBuilt = errors.New("the mutant does not build")
	// errBaseline means that the test does not pass without the mutant either, which proves nothing.
	errBaseline = errors.New("the test does not pass without the mutant")
	// errNoTests means that no test was run.
	errNoTests = errors.New("there are no tests")
)

// runner runs the tests of mutants.
type runner struct {
	root     string        // of the repository
	timeout  time.Duration // of the tests of one package
	parallel int           // mutants at a time
	verbose  bool          // run all tests of a mutant, also after one has failed, and keep what they say
	progress func(outcome) // called for each outcome, one at a time
}

// outcome is what the tests have made of a mutant.
type outcome struct {
	mutant mutant
	caught string   // the first test that failed
	said   []string // the errors of the tests that failed, if runner.verbose is set
	err    error    // why the mutant is not caught; nil if it is
	took   time.Duration
}

// run tests the mutants, and returns an outcome for each, in their order. The error is that of ctx.
func (r *runner) run(ctx context.Context, mutants []mutant) ([]outcome, error) {
	outcomes := make([]outcome, len(mutants))
	next := make(chan int)
	var workers sync.WaitGroup
	var reporting sync.Mutex
	for range r.parallel {
		workers.Go(func() {
			for i := range next {
				outcomes[i] = r.test(ctx, mutants[i])
				if ctx.Err() != nil {
					continue
				}
				reporting.Lock()
				r.progress(outcomes[i])
				reporting.Unlock()
			}
		})
	}
	for i := range mutants {
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.checkTests(ctx, outcomes)
	return outcomes, ctx.Err()
}

// test runs the tests of a mutant.
func (r *runner) test(ctx context.Context, m mutant) outcome {
	began := time.Now()
	result, err := r.try(ctx, &m)
	o := outcome{mutant: m, err: err, took: time.Since(began)}
	if err == nil {
		o.caught = result.failed[0]
	}
	if r.verbose {
		o.said = result.said
	}
	return o
}

// try returns the result of the tests of a mutant. Without an error one of them has failed.
func (r *runner) try(ctx context.Context, m *mutant) (result, error) {
	file, source, err := m.mutated(r.root)
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	overlay, err := writeOverlay(dir, file, source)
	if err != nil {
		return result{}, err
	}
	got, err := r.goTest(ctx, m, "-overlay="+overlay, "-count=1", fmt.Sprintf("-failfast=%t", !r.verbose))
	switch {
	case err != nil:
	case got.notBuilt:
		err = fmt.Errorf("%w:\n%s", errNotBuilt, got.output)
	case len(got.failed) == 0 && len(got.passed) == 0:
		err = errNoTests
	case len(got.failed) == 0:
		err = errSurvived
	}
	return got, err
}

// checkTests runs the tests that have caught mutants without a mutant. One that does not run, or fails, proves nothing.
func (r *runner) checkTests(ctx context.Context, outcomes []outcome) {
	type selection struct{ packages, run string }
	groups := map[selection][]*outcome{} // run is empty if they were caught by tests
	for i := range outcomes {
		o := &outcomes[i]
		if o.err != nil {
			continue
		}
		key := selection{packages: fmt.Sprint(o.mutant.packages)}
		if !isTest(o.caught) {
			key.run = cmp.Or(o.mutant.run, ".")
		}
		groups[key] = append(groups[key], o)
	}
	for key, same := range groups {
		m := same[0].mutant
		m.run, m.timeout = key.run, ""
		if m.run == "" {
			m.run = anyOf(same)
		}
		result, err := r.goTest(ctx, &m)
		for _, o := range same {
			if err == nil && result.proves(o.caught) {
				continue
			}
			if o.err = err; err == nil {
				o.err = fmt.Errorf("%w: %s\n%s", errBaseline, o.caught, result.output)
			}
			r.progress(*o)
		}
	}
}

// anyOf returns the pattern of the tests that have caught the mutants.
func anyOf(outcomes []*outcome) string {
	var names []string
	for _, o := range outcomes {
		names = append(names, o.caught)
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// writeOverlay writes the source, and the file for go's -overlay that puts it in the place of the file.
func writeOverlay(dir, file string, source []byte) (overlay string, err error) {
	replacement := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(replacement, source, 0o600); err != nil {
		return "", err
	}
	content, err := json.Marshal(map[string]map[string]string{"Replace": {file: replacement}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// goTest runs the tests of a mutant. An error means that go itself failed.
func (r *runner) goTest(ctx context.Context, m *mutant, flags ...string) (result, error) {
	module, packages := r.inModule(m.packages)
	args := append([]string{"test", "-json", "-vet=off", "-ldflags=-w", "-p=1", "-timeout=" + cmp.Or(m.timeout, r.timeout.String())}, flags...)
	if m.run != "" {
		args = append(args, "-run="+m.run)
	}
	command := exec.CommandContext(ctx, "go", append(args, packages...)...)
	command.Dir = module
	command.Env = append(command.Environ(), reliability.Variable+"=") // what the tests count is no result
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if ctx.Err() != nil {
		return result{}, ctx.Err()
	}
	read := readEvents(output)
	if err != nil && len(read.failed) == 0 && !read.notBuilt {
		return result{}, fmt.Errorf("go test: %w\n%s%s", err, stderr.Bytes(), output)
	}
	return read, nil
}

// inModule returns the folder of the module that the packages are in, and the packages as seen from there.
func (r *runner) inModule(packages []string) (module string, within []string) {
	dir := filepath.Clean(packages[0])
	for ; dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(r.root, dir, "go.mod")); err == nil {
			break
		}
	}
	for _, p := range packages {
		if dir != "." {
			p = "." + strings.TrimPrefix(filepath.Clean(p), dir)
		}
		within = append(within, p)
	}
	return filepath.Join(r.root, dir), within
}
