// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/demo"
	"github.com/refwatch/refwatch/featuregates"
	"github.com/refwatch/refwatch/manager"
)

// gateVersion is the version that feature gates are read for: that of the Kubernetes libraries in go.mod.
const gateVersion = "1.36"

// flags are the values of the command line. There is no configuration file, and no variable of the environment
// counts: KUBECONFIG in particular, so that nobody runs an agent against a cluster when a demo was meant.
type flags struct {
	kubeconfig string
	nodeName   string
	rootDir    string
	once       bool
	gate       featuregate.MutableVersionedFeatureGate
}

// newCommand returns the command. It prints to its OutOrStdout and ends with the context it is given.
func newCommand() *cobra.Command {
	f := &flags{gate: featuregate.NewVersionedFeatureGate(version.MustParse(gateVersion))}
	command := &cobra.Command{
		Use:   "nodeagent",
		Short: "Keeps the volumes of a node's pods equal to the Secrets and ConfigMaps they name",
		Long: `Writes the secret, configMap, projected and downwardAPI volumes of the pods that are bound to a node
under ROOT/pods/UID/volumes/NAME, and keeps them up to date.

Without --kubeconfig it starts an API server in its own process, fills it, and tells what happens.`,
		Example: `  nodeagent --once
  nodeagent --kubeconfig=$HOME/.kube/config --node-name=worker-7 --root-dir=/var/lib/nodeagent`,
		Args: cobra.NoArgs,
	}
	// The gate must know its features before its flag is made.
	gateErr := featuregates.AddFeatureGates(f.gate)
	f.addTo(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		if gateErr != nil {
			return gateErr
		}
		if err := f.validate(command.Flags().Changed); err != nil {
			return err
		}
		if f.kubeconfig == "" {
			return demo.Run(command.Context(), demo.Options{
				Out: command.OutOrStdout(), NodeName: f.nodeName, RootDir: f.rootDir, Once: f.once, FeatureGate: f.gate,
			})
		}
		return f.runAgent(command.Context())
	}
	return command
}

// addTo adds the flags to a set. Those of the log, -v and --vmodule, come from component-base when the command
// is run by its cli package.
func (f *flags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"File that tells how to reach the API server. Without it the agent starts a server of its own and shows what it does.")
	set.StringVar(&f.nodeName, "node-name", "",
		"Node whose pods are followed. Required with --kubeconfig; node-1 otherwise.")
	set.StringVar(&f.rootDir, "root-dir", "",
		"Folder for the volumes. Required with --kubeconfig; otherwise a temporary one that is removed at the end.")
	set.BoolVar(&f.once, "once", false,
		"End when the story has been told; the exit status is 0 only if every step was observed to be right. Not with --kubeconfig.")
	f.gate.AddFlag(set)
}

// validate tells the first thing that is wrong with the flags, and what to do about it. given tells whether a
// flag was given: an empty value is mostly a variable of a script that is not set, and must not start a demo.
func (f *flags) validate(given func(string) bool) error {
	for _, flag := range []struct{ name, value string }{{"kubeconfig", f.kubeconfig}, {"node-name", f.nodeName}, {"root-dir", f.rootDir}} {
		if flag.value == "" && given(flag.name) {
			return fmt.Errorf("--%s is empty: give a value or leave the flag away", flag.name)
		}
	}
	if problems := validation.IsDNS1123Subdomain(f.nodeName); f.nodeName != "" && len(problems) > 0 {
		return fmt.Errorf("--node-name %q is not a node's name: %s", f.nodeName, strings.Join(problems, "; "))
	}
	switch {
	case f.kubeconfig == "":
		return nil
	case f.once:
		return errors.New("--once ends the demo, and with --kubeconfig there is none: leave one of the two away")
	case f.nodeName == "":
		return errors.New("--node-name is required with --kubeconfig: name the node whose pods are to be followed")
	case f.rootDir == "":
		return errors.New("--root-dir is required with --kubeconfig: name an empty folder for the volumes")
	}
	return nil
}

// runAgent follows a node of a real cluster until ctx ends. A server that cannot be reached is no error: an
// agent starts before its server at times, and waits for it.
func (f *flags) runAgent(ctx context.Context) error {
	// The file is opened here because clientcmd takes one that does not exist for an empty one.
	file, err := os.Open(f.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig cannot be read: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("--kubeconfig cannot be read: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig %s cannot be used: %w", f.kubeconfig, err)
	}
	client, err := manager.ClientFor(rest.AddUserAgent(config, "refwatch-nodeagent"))
	if err != nil {
		return fmt.Errorf("--kubeconfig %s cannot be used: %w", f.kubeconfig, err)
	}
	a, err := agent.New(agent.Options{Client: client, NodeName: f.nodeName, RootDir: f.rootDir, FeatureGate: f.gate})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Following the pods of the node", "node", f.nodeName, "server", config.Host, "rootDir", f.rootDir)
	return a.Run(ctx)
}
