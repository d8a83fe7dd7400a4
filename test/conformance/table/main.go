// SPDX-License-Identifier: Apache-2.0

// Command table writes the results of conformance runs down as a page.
//
//	table -o docs/conformance.md RESULTS.json...
//
// It fails if a case failed, or was not run in a column.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/refwatch/refwatch/test/conformance"
)

const page = `# Conformance

What a watch store, a manager and a reflector promise, and what they need of a server for it, in cases. Each case runs
on the in-process server of ` + "`test/apiserver`" + ` and on a real kube-apiserver 1.36.3 with etcd 3.6.8; what is promised, with
this module's own engine (stream) and with client-go's Reflector in its place. A ✓ stands for four runs: with WatchList
and on a server that refuses it, each in JSON and in protobuf. ` + "`make e2e`" + ` runs them and writes this page.
`

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("table", flag.ContinueOnError)
	flags.SetOutput(usage)
	out := flags.String("o", "", "the `file` to write")
	flags.Usage = func() {
		fmt.Fprintln(usage, "usage: table -o FILE RESULTS.json...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() == 0 {
		flags.Usage()
		return fmt.Errorf("the file to write, and files with results, are needed")
	}
	results, err := conformance.ReadFiles(flags.Args()...)
	if err != nil {
		return err
	}
	tables, passed := conformance.Tables(results)
	if err := os.WriteFile(*out, []byte(page+tables), 0o644); err != nil {
		return err
	}
	if !passed {
		return fmt.Errorf("not all cases passed in all columns, see %s", *out)
	}
	return nil
}
