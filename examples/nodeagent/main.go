// SPDX-License-Identifier: Apache-2.0

// Nodeagent writes the Secrets and ConfigMaps that the pods of one node reference to files, as kubelet
// does, and keeps the files up to date. It is the main example for refwatch: package agent is what a node
// agent would start from.
//
// Without --kubeconfig it brings an API server of its own and tells a story with it:
//
//	go run ./examples/nodeagent          # the story, then stays up for kubectl
//	go run ./examples/nodeagent --once   # ends after the story; fails unless all of it was observed
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
)

// main only turns a number into an exit status, for os.Exit would skip what run defers.
func main() {
	os.Exit(run())
}

// run runs the command line and returns the exit status: 0, or 1 with a line on stderr that says why.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// After the first signal the default is back: a second one kills.
	context.AfterFunc(ctx, stop)

	command := newCommand()
	command.SetContext(ctx)
	command.PersistentPreRun = func(*cobra.Command, []string) {
		// The cli package has just switched it off. Without it a context carries no logger, and so refwatch
		// cannot keep client-go from logging response bodies, secrets and all, at -v=8 and above.
		klog.EnableContextualLogging(true)
	}
	if err := cli.RunNoErrOutput(command); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		return 1
	}
	return 0
}
