// SPDX-License-Identifier: Apache-2.0

// Podreflector keeps a client-go store of pods equal to the server, and prints each change. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const help = `Podreflector keeps a store of pods equal to the server, and prints each change. Without --kubeconfig it runs a demo:
it starts an API server in its own process, and creates, changes and deletes pods there.

`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal, restore the default: a second one kills the process.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run runs the command line until ctx ends. Environment variables are ignored: with KUBECONFIG set, a user who wants
// the demo would get the pods of a cluster.
func run(ctx context.Context, out io.Writer, args []string) error {
	set := flag.NewFlagSet("podreflector", flag.ContinueOnError)
	set.SetOutput(io.Discard) // main prints the error
	kubeconfig := set.String("kubeconfig", "", "kubeconfig `file` of the cluster; without it, the demo runs")
	namespace := set.String("namespace", "", "`namespace` of the pods; without it, all namespaces")
	node := set.String("node-name", "", "`node` of the pods; without it, all nodes and pods without a node")
	once := set.Bool("once", false, "end after the demo's steps; not with --kubeconfig")
	err := set.Parse(args)
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, help)
		set.SetOutput(out)
		set.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; see --help", err)
	case set.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; see --help", set.Arg(0))
	case *kubeconfig == "" && given["kubeconfig"]:
		return errors.New("--kubeconfig is empty: give a value or omit the flag")
	case *kubeconfig == "" && (given["namespace"] || given["node-name"]):
		return errors.New("--namespace and --node-name need a --kubeconfig: give a file, or omit them for the demo")
	case *kubeconfig == "":
		return runDemo(ctx, out, *once)
	case *once:
		return errors.New("--once is for the demo, and --kubeconfig for a cluster: omit one of the two")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s cannot be used: %w", *kubeconfig, err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s cannot be used: %w", *kubeconfig, err)
	}
	return newPods(client, *namespace, *node, func(line string) { fmt.Fprintln(out, line) }).run(ctx)
}
