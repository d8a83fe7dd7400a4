// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Command run runs the parts of make reliability that are not done, and writes their results as a page.
//
//	run [-hour] -results _output/reliability -o _output/reliability.md
//
// Each part is a make target, and takes an hour at most. Its results are a file in the folder of results, whose name is
// that of the part. A part that has such a file is done: a run that was stopped goes on where it was, also days
// later. To begin anew, delete the folder. Each result has its day and its commit.
//
// A part that finds a violation is done, too: the page names what is wrong, and the command ends with exit code 1. A
// part that fails otherwise is run again the next time. SIGINT and SIGTERM stop the parts that run, whose results are
// lost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := start(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "reliability:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(out)
	hour := flags.Bool("hour", false, "run smaller counts, for an hour or two")
	folder := flags.String("results", "", "the `folder` of results")
	page := flags.String("o", "", "write this `page`")
	only := flags.String("part", "", "run only the parts whose names begin with this `text`, and write no page")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *folder == "" || *page == "" || flags.NArg() > 0 {
		return errors.New("-results FOLDER and -o PAGE are required, and nothing else but -hour and -part")
	}
	parts := night
	if *hour {
		parts = anHour
	}
	r := runner{folder: *folder, out: out, make: runMake}
	failure := r.runAll(ctx, expand(parts, *only))
	if ctx.Err() != nil || *only != "" {
		return failure
	}
	command := exec.CommandContext(ctx, "go", append([]string{"run", "./test/reliability/page", "-o", *page}, r.done(expand(parts, ""))...)...)
	command.Stdout, command.Stderr = out, out
	return errors.Join(failure, command.Run())
}

// suffix is that of a file of results, and partial that of one whose part runs.
const suffix, partial = ".jsonl", ".partial"

// runner runs parts.
type runner struct {
	folder string
	out    io.Writer
	// make runs a make target, whose results go to a file.
	make func(ctx context.Context, args []string, results string, out io.Writer) error

	mu sync.Mutex // of out
}

func (r *runner) printf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// runAll runs the parts that are not done: those that mostly wait beside the others.
func (r *runner) runAll(ctx context.Context, parts []part) error {
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return err
	}
	var waiting, others []part
	for _, p := range parts {
		switch _, err := os.Stat(r.file(p)); {
		case err == nil:
			r.printf("%s: done before", p.name)
		case p.waits:
			waiting = append(waiting, p)
		default:
			others = append(others, p)
		}
	}
	var beside error
	var wg sync.WaitGroup
	wg.Go(func() { beside = r.runEach(ctx, waiting) })
	err := r.runEach(ctx, others)
	wg.Wait()
	return errors.Join(err, beside)
}

// done returns the files of the parts that are done. Files of other parts, as of a night before, do not count.
func (r *runner) done(parts []part) (files []string) {
	for _, p := range parts {
		if _, err := os.Stat(r.file(p)); err == nil {
			files = append(files, r.file(p))
		}
	}
	return files
}

func (r *runner) file(p part) string { return filepath.Join(r.folder, p.name+suffix) }

// runEach runs parts one after the other. A part that fails does not stop the others.
func (r *runner) runEach(ctx context.Context, parts []part) error {
	var failed []error
	for i, p := range parts {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped: run it again to go on: %w", context.Cause(ctx))
		}
		r.printf("%s: make %s (%d of %d)", p.name, strings.Join(p.args, " "), i+1, len(parts))
		began := time.Now()
		if err := r.run(ctx, p); err != nil {
			r.printf("%s: FAILED after %v: %v", p.name, time.Since(began).Round(time.Second), err)
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		r.printf("%s: ok, %v", p.name, time.Since(began).Round(time.Second))
	}
	return errors.Join(failed...)
}

// run runs a part. Its output is a file beside the results.
func (r *runner) run(ctx context.Context, p part) error {
	results := r.file(p) + partial
	if err := os.RemoveAll(results); err != nil { // of a run that was stopped
		return err
	}
	log, err := os.Create(filepath.Join(r.folder, p.name+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	failure := r.make(ctx, p.args, results, log)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failure != nil {
		failure = fmt.Errorf("%w: see %s", failure, log.Name())
	}
	counted, err := reliability.Read(results)
	if err != nil {
		return errors.Join(failure, fmt.Errorf("it has counted nothing: %w", err))
	}
	violates := func(r reliability.Result) bool { return r.Violations > 0 }
	if failure != nil && !slices.ContainsFunc(counted, violates) {
		return failure
	}
	return errors.Join(failure, os.Rename(results, r.file(p)))
}

// runMake runs a make target in a process group of its own. At the end of ctx the group gets SIGTERM, and SIGKILL when
// make has ended, or a minute later.
func runMake(ctx context.Context, args []string, results string, out io.Writer) error {
	absolute, err := filepath.Abs(results)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "nice", append([]string{"make"}, args...)...)
	command.Env = append(os.Environ(), reliability.Variable+"="+absolute)
	command.Stdout, command.Stderr = out, out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	err = command.Run()
	if ctx.Err() != nil && command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // fails if nothing is left
	}
	return err
}
