// SPDX-License-Identifier: Apache-2.0

// Command build builds the control plane of the end-to-end tests and shows the progress. The tests also build it, but
// "go test" does not show their progress.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/refwatch/refwatch/test/e2e"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run builds the programs and prints their paths.
func run(ctx context.Context, output, log io.Writer) error {
	binaries, err := e2e.Build(ctx, log)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(output, "%s\n%s\n", binaries.APIServer, binaries.Etcd)
	return err
}
