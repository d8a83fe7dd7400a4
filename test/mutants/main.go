// SPDX-License-Identifier: Apache-2.0

// Command mutants proves that the tests notice bugs. It has a list of seeded bugs, the mutants, each of which breaks a
// promise. It runs tests with one mutant at a time, and fails if they pass.
//
//	mutants [-v] [-run PATTERN | -part 2/6] [-suite PACKAGES [-suite-run PATTERN]]
//
// Each line has a mutant, how long its tests took, and the first test that failed. SURVIVED means that none did. With
// -v all tests of a mutant run, and what the failed ones say is printed. With -suite other tests run than its own.
//
// PATTERN is a regular expression for names of mutants. `make mutants` runs all, and `make mutants MUTANTS=PATTERN`
// some. -part 2/6 tests about a sixth of all. A mutant stays in its part when others are added.
//
// The source is not touched: go's -overlay puts the changed file in its place. In the end, the tests that have noticed
// a mutant run without one, and must pass.
//
// # Lists
//
// The files in list/ hold the mutants. One looks like this:
//
//	mutant event-of-an-equal-version
//	breaks: An event at the version that was seen already is not taken for a change.
//	tests: ./internal/states
//	in: internal/states.Order.Event
//	-	case order > 0:
//	+	case order >= 0:
//
// The line "in:" names the declaration that changes: FOLDER.NAME, or FOLDER.RECEIVER.NAME for a method, without * and
// type parameters. The name of a constant, a variable or a type stands for its whole group in parentheses. Comments
// before a declaration do not belong to it, and test files are not searched.
//
// The changed lines, with the lines around them that begin with a space, must be in the declaration once. Their
// indentation does not count.
//
// A line "run: PATTERN" selects tests, as go test's -run does, where a package has slow ones. A line "timeout: 30s"
// ends them early, where a bug makes a test hang.
//
// A mutant is a bug that somebody could have written, not a typing error. If it survives, a promise has no test: write
// one, in the package that has the promise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	mutants, err := readLists()
	if err == nil {
		err = run(ctx, mutants, os.Args[1:], os.Stdout)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	runner

	pattern         string // of the mutants' names
	part, parts     int    // test the part-th of so many parts
	suite, suiteRun string
}

// parseOptions parses and checks the flags. It prints the usage to out if that was asked for, or if a flag is unknown.
func parseOptions(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.root, "root", ".", "the `folder` of the repository")
	flags.StringVar(&o.pattern, "run", "", "test only the mutants whose name matches this `pattern`")
	flags.Func("part", "test only a `part` of the mutants, such as 2/6: the second of six parts", o.setPart)
	flags.StringVar(&o.suite, "suite", "", "run these `packages` in place of the tests of each mutant")
	flags.StringVar(&o.suiteRun, "suite-run", "", "with -suite, the `pattern` of the tests")
	flags.BoolVar(&o.verbose, "v", false, "run all tests of each mutant, also after one has failed, and print what they say")
	flags.IntVar(&o.parallel, "parallel", 2, "how many mutants to test at a time")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Minute, "how long the tests of one package may take")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	absolute, err := filepath.Abs(o.root)
	if err != nil {
		return o, err
	}
	o.root = absolute
	_, err = os.Stat(filepath.Join(o.root, "go.mod"))
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q: select mutants with -run", flags.Arg(0))
	case err != nil:
		return o, fmt.Errorf("-root is not the folder of the repository: %w", err)
	case o.parallel < 1 || o.timeout <= 0:
		return o, errors.New("-parallel and -timeout must be positive")
	case o.suiteRun != "" && o.suite == "":
		return o, errors.New("-suite-run needs -suite")
	case o.parts > 1 && o.pattern != "":
		return o, errors.New("give -part or -run")
	}
	return o, nil
}

// setPart reads the flag -part.
func (o *options) setPart(text string) error {
	n, err := fmt.Sscanf(text, "%d/%d", &o.part, &o.parts)
	if err != nil || n != 2 || o.part < 1 || o.part > o.parts || text != fmt.Sprintf("%d/%d", o.part, o.parts) {
		return errors.New("want two numbers such as 2/6")
	}
	return nil
}

// ofPart returns the mutants of the part that was asked for, or all.
func (o *options) ofPart(mutants []mutant) (selected []mutant) {
	for _, m := range mutants {
		if o.parts == 0 || int(crc32.ChecksumIEEE([]byte(m.name)))%o.parts == o.part-1 {
			selected = append(selected, m)
		}
	}
	return selected
}

func run(ctx context.Context, mutants []mutant, args []string, out io.Writer) error {
	o, err := parseOptions(args, out)
	if err != nil {
		return err
	}
	selected, err := matching(o.ofPart(mutants), o.pattern)
	if err != nil {
		return err
	}
	if o.suite != "" {
		for i := range selected {
			selected[i].packages, selected[i].run = strings.Fields(o.suite), o.suiteRun
		}
	}
	o.progress = func(o outcome) { fmt.Fprintln(out, o) }
	began := time.Now()
	outcomes, err := o.run(ctx, selected)
	if err != nil {
		return err
	}
	failed, took := countFailed(outcomes), time.Since(began)
	fmt.Fprintf(out, "%d of %d mutants caught in %v\n", len(outcomes)-failed, len(outcomes), took.Round(time.Second))
	if (len(selected) == len(mutants) || o.parts > 0) && o.suite == "" {
		if err := record(len(outcomes), failed, took); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d mutants are not caught", failed)
	}
	return nil
}

// record counts a run of all mutants, or of a part of them, for make reliability.
func record(mutants, failed int, took time.Duration) error {
	return reliability.Record(reliability.Result{
		Part: "mutants", Name: reliability.MutantsCaught, Count: int64(mutants - failed), Violations: int64(failed), Seconds: took.Seconds(),
	})
}

// matching returns the mutants whose name matches a pattern.
func matching(mutants []mutant, pattern string) ([]mutant, error) {
	name, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	selected := slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !name.MatchString(m.name) })
	if len(selected) == 0 && pattern != "" {
		return nil, fmt.Errorf("no mutant to test has a name that matches %q", pattern)
	}
	return selected, nil
}

func countFailed(outcomes []outcome) (n int) {
	for _, o := range outcomes {
		if o.err != nil {
			n++
		}
	}
	return n
}

// String is the progress line. For a mutant that is not caught it says what to do.
func (o outcome) String() string {
	line := fmt.Sprintf("%-45s %5.1fs  ", o.mutant.name, o.took.Seconds())
	switch {
	case o.err == nil:
		return line + strings.Join(append([]string{o.caught}, o.said...), "\n\t")
	case errors.Is(o.err, errSurvived):
		return line + fmt.Sprintf("SURVIVED: %s\n\tNo test of %s fails. Write one that does, for the promise that is broken: %s",
			o.mutant.in, strings.Join(o.mutant.packages, " "), o.mutant.breaks)
	case errors.Is(o.err, errNotApplied):
		return line + fmt.Sprintf("NOT APPLIED: %v\n\tThe source has changed: adapt the mutant in test/mutants/list, or correct its lines.", o.err)
	case errors.Is(o.err, errNotBuilt):
		return line + fmt.Sprintf("NOT BUILT: %v\n\tAdapt the mutant in test/mutants/list, so that it compiles.", o.err)
	case errors.Is(o.err, errNoTests):
		return line + fmt.Sprintf("UNKNOWN: no test of %s matches %q\n\tAdapt the mutant in test/mutants/list.",
			strings.Join(o.mutant.packages, " "), o.mutant.run)
	case errors.Is(o.err, errBaseline):
		return line + fmt.Sprintf("UNKNOWN: %v\n\tMend the test first.", o.err)
	}
	return line + fmt.Sprintf("UNKNOWN: %v", o.err)
}
