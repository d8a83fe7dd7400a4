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

// gateVersion is the emulated version of the feature gates: that of the Kubernetes libraries in go.mod.
const gateVersion = "1.36"

// flags are the values of the command line. There is no configuration file, and environment variables are ignored:
// with KUBECONFIG set, a user who wants the demo would run an agent against a cluster.
type flags struct {
	kubeconfig string
	nodeName   string
	rootDir    string
	once       bool
	gate       featuregate.MutableVersionedFeatureGate
}

// newCommand returns the command. It prints to its OutOrStdout and ends when its context does.
func newCommand() *cobra.Command {
	f := &flags{gate: featuregate.NewVersionedFeatureGate(version.MustParse(gateVersion))}
	command := &cobra.Command{
		Use:   "nodeagent",
		Short: "Write the volumes of a node's pods to files and keep them up to date",
		Long: `Write the secret, configMap, projected and downwardAPI volumes of a node's pods to files below
ROOT/pods/UID/volumes/NAME, and keep the files up to date.

Without --kubeconfig, nodeagent runs a demo: it starts an API server in its own process, changes objects there, and
prints how the files change.`,
		Example: `  nodeagent --once
  nodeagent --kubeconfig=$HOME/.kube/config --node-name=worker-7 --root-dir=/var/lib/nodeagent`,
		Args: cobra.NoArgs,
	}
	// The help of the flag lists the features that the gate has when the flag is added.
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

// addTo adds the flags to a set. component-base's cli package adds the log flags, -v and --vmodule.
func (f *flags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"Kubeconfig file of the cluster. Default: none, which runs the demo.")
	set.StringVar(&f.nodeName, "node-name", "",
		"Node whose volumes are written. Required with --kubeconfig; in the demo the default is node-1.")
	set.StringVar(&f.rootDir, "root-dir", "",
		"Folder for the volumes. Required with --kubeconfig; in the demo the default is a temporary folder.")
	set.BoolVar(&f.once, "once", false,
		"End after the demo's steps; the exit status is 0 only if every step succeeded. Not with --kubeconfig.")
	f.gate.AddFlag(set)
}

// validate returns an error for the first wrong flag. given reports whether a flag was given: an empty value mostly
// comes from an unset variable in a script, and must not start the demo.
func (f *flags) validate(given func(string) bool) error {
	for _, flag := range []struct{ name, value string }{{"kubeconfig", f.kubeconfig}, {"node-name", f.nodeName}, {"root-dir", f.rootDir}} {
		if flag.value == "" && given(flag.name) {
			return fmt.Errorf("--%s is empty: give a value or omit the flag", flag.name)
		}
	}
	if problems := validation.IsDNS1123Subdomain(f.nodeName); f.nodeName != "" && len(problems) > 0 {
		return fmt.Errorf("--node-name %q is not a valid node name: %s", f.nodeName, strings.Join(problems, "; "))
	}
	switch {
	case f.kubeconfig == "":
		return nil
	case f.once:
		return errors.New("--once is for the demo, and --kubeconfig for a cluster: omit one of the two")
	case f.nodeName == "":
		return errors.New("--node-name is required with --kubeconfig: give the name of the node")
	case f.rootDir == "":
		return errors.New("--root-dir is required with --kubeconfig: give an empty folder for the volumes")
	}
	return nil
}

// runAgent runs the agent for a node of a cluster until ctx ends. A server that cannot be reached is no error: the
// agent waits for it.
func (f *flags) runAgent(ctx context.Context) error {
	// Opened here because clientcmd treats a missing file as an empty one.
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
	klog.FromContext(ctx).Info("Starting to write the volumes of the node's pods", "node", f.nodeName, "server", config.Host, "rootDir", f.rootDir)
	return a.Run(ctx)
}
