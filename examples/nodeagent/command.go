// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/refwatch/refwatch/examples/internal/cli"
	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/config"
	"github.com/refwatch/refwatch/examples/nodeagent/demo"
)

// helpWidth is the width of the help, in columns.
const helpWidth = 110

// newCommand returns the command. It prints to its OutOrStdout and ends when its context does.
func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "nodeagent",
		Short: "Write the volumes of a node's pods to files and keep them up to date",
		Long: `Write the secret, configMap, projected and downwardAPI volumes of a node's pods to files below
ROOT/pods/UID/volumes/NAME, and keep the files up to date.

With --config or --kubeconfig, nodeagent is a daemon for one node of a cluster. Without them it runs a demo: it starts
an API server in its own process, changes objects there, and prints how the files change.

Examples:
  nodeagent --once
  nodeagent --kubeconfig=$HOME/.kube/config --node-name=worker-7 --root-dir=/var/lib/nodeagent
  nodeagent --config=/etc/nodeagent/config.yaml --node-name=worker-7`,
		SilenceUsage: true, // it would hide the error
	}
	cli.Simplify(command)
	// These options only hold what was given: see complete.
	o := newOptions(config.Default())
	for _, set := range o.flags.FlagSets {
		command.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(command, o.flags, helpWidth)
	command.RunE = func(command *cobra.Command, _ []string) error {
		given := map[string]string{}
		command.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = f.Value.String() })
		o, err := complete(given)
		if err != nil {
			return err
		}
		// The feature gates of logging have their defaults. Contextual logging is on: refwatch needs a logger in the
		// context to keep client-go from logging response bodies, Secrets included, at -v=8 and above.
		if err := logsapi.ValidateAndApply(&o.config.Logging, nil); err != nil {
			return err
		}
		if !o.demo() {
			return runDaemon(command.Context(), given, o)
		}
		return runDemo(command, o)
	}
	return command
}

// runDemo runs the demo with the command's output.
func runDemo(command *cobra.Command, o *options) error {
	gate, err := o.config.Gate()
	if err != nil {
		return err
	}
	d := demo.Options{
		Out: command.OutOrStdout(), NodeName: o.config.NodeName, RootDir: o.config.RootDir, Once: o.once, FeatureGate: gate,
	}
	if o.config.Serves() {
		d.BindAddress = o.config.BindAddress
		d.Handler = func(a *agent.Agent) (http.Handler, error) {
			return newHandler(a, nil, func() *options { return o })
		}
	}
	return demo.Run(command.Context(), d)
}
