// SPDX-License-Identifier: Apache-2.0

// Nodeagent writes the Secrets and ConfigMaps that the pods of one node reference to files, as kubelet
// does, and keeps the files up to date. It is the main example for refwatch: start a node agent of your own from
// package agent.
//
// Without --config and --kubeconfig it runs a demo, with an API server in its own process:
//
//	go run ./examples/nodeagent          # runs the demo, then keeps running for kubectl
//	go run ./examples/nodeagent --once   # ends after the demo; fails unless every step succeeded
//
// See README.md beside this file.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/component-base/cli"
)

// stopTimeout is how long the program may take to end after a signal.
const stopTimeout = 10 * time.Second

// main only sets the exit status: os.Exit would skip the deferred calls of run.
func main() {
	os.Exit(run())
}

// run runs the command line and returns the exit status: 0, or 1 with the error on stderr.
func run() int {
	ctx, stop := signalContext()
	defer stop()
	command := newCommand()
	command.SetContext(ctx)
	if err := cli.RunNoErrOutput(command); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}

// signalContext returns a context that the first signal ends. A second signal kills the process, and it exits if it has
// not ended within stopTimeout.
func signalContext() (ctx context.Context, stop context.CancelFunc) {
	ctx, stop = signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop() // restores the default: a second signal kills the process
		time.AfterFunc(stopTimeout, func() {
			fmt.Fprintf(os.Stderr, "Error: did not end within %v after the signal\n", stopTimeout)
			os.Exit(1)
		})
	})
	return ctx, stop
}
