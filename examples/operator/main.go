// SPDX-License-Identifier: Apache-2.0

// Operator is a controller-runtime operator that may read only the Secrets that its custom resources name. One line of
// it is special: the option NewCache of its manager, in package controller.
//
// Without --kubeconfig it runs a demo, with an API server in its own process:
//
//	cd examples/operator
//	go run .          # runs the demo, then keeps running for kubectl
//	go run . --once   # ends after the demo; fails unless every step succeeded
//
// See README.md beside this file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// main only sets the exit status: os.Exit would skip the deferred calls of run.
func main() {
	os.Exit(run())
}

// run runs the command line and returns the exit status: 0, or 1 with the error on stderr.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// After the first signal, restore the default: a second one kills the process.
	context.AfterFunc(ctx, stop)

	command := newCommand()
	command.SetContext(ctx)
	command.PersistentPreRun = func(*cobra.Command, []string) {
		// The cli package has just switched it off. refwatch needs a logger in the context to keep client-go from
		// logging response bodies, Secrets included, at -v=8 and above.
		klog.EnableContextualLogging(true)
		ctrl.SetLogger(klog.Background())
	}
	if err := cli.RunNoErrOutput(command); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}
