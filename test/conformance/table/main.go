// SPDX-License-Identifier: Apache-2.0

// Command table writes the results of conformance runs as a page.
//
//	table -o _output/conformance.md RESULTS.json...
//
// It exits with an error if a case failed or was not run in one of the columns.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/refwatch/refwatch/test/conformance"
)

const page = `# Conformance

Cases that test the [promises](../promises.md), and the server behaviour that these depend on. A ✓ stands for eight
runs: on the in-process server of ` + "`test/apiserver`" + ` and on a real kube-apiserver 1.36.3 with etcd 3.6.8, each with
WatchList and without, in JSON and in protobuf. A – means that a case does not apply. Stores that watch run with parked
streams, the default, and with a client whose streams net/http reads (blocking). In the column client-go, its own
Reflector runs the cases; it may back off for seconds where ours does not. ` + "`make e2e`" + ` writes this page. ` + "`make e2e KUBERNETES=1.37`" + ` runs
the same cases on a real kube-apiserver 1.37.2 with etcd 3.7.0, and writes the same page.
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
	out := flags.String("o", "", "the `file` to write (required)")
	flags.Usage = func() {
		fmt.Fprintln(usage, "usage: table -o FILE RESULTS.json...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() == 0 {
		flags.Usage()
		return fmt.Errorf("-o and at least one file of results are required")
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
		return fmt.Errorf("some cases failed or were not run: see %s", *out)
	}
	return nil
}
