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
	"syscall"

	"github.com/refwatch/refwatch/test/bench/results"
	"github.com/refwatch/refwatch/test/bench/worker"
)

// workerCommand is the argument with which this program runs itself again.
const workerCommand = "worker"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case workerCommand:
			return worker.Run(ctx, os.Stdin, stdout)
		case "table":
			return table(args[1:], stderr)
		}
	}
	options, err := parse(args, stderr)
	if err != nil {
		return err
	}
	return newBench(options, stdout, stderr).run(ctx)
}

// table writes the page and the plots from results that are there.
func table(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("bench table", flag.ContinueOnError)
	flags.SetOutput(stderr)
	from := flags.String("from", defaultOut, "the `folder` of results.json, for the plots too")
	to := flags.String("o", "", "the `file` to write, as Markdown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *to == "" || flags.NArg() > 0 {
		return errors.New("say which file to write: bench table -o FILE")
	}
	r, err := results.Load(filepath.Join(*from, resultsFile))
	if err != nil {
		return err
	}
	if len(r.Figures) == 0 {
		return fmt.Errorf("there are no results in %s: run the benchmark first", *from)
	}
	if err := r.Plot(*from); err != nil {
		return err
	}
	plots, err := relative(filepath.Dir(*to), *from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*to, []byte(r.Page(plots)), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// relative returns the way from one folder to another.
func relative(from, to string) (string, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return "", err
	}
	if to, err = filepath.Abs(to); err != nil {
		return "", err
	}
	return filepath.Rel(from, to)
}
