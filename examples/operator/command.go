// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/internal/cli"
	"github.com/refwatch/refwatch/examples/operator/controller"
	"github.com/refwatch/refwatch/examples/operator/demo"
)

// flags are the values of the command line. Environment variables are ignored: with KUBECONFIG set, a user who wants
// the demo would run an operator against a cluster.
type flags struct {
	kubeconfig string
	inCluster  bool
	once       bool
	cache      string
	options    controller.Options
}

// newCommand returns the command. It prints to its OutOrStdout and ends when its context does.
func newCommand() *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use:   "operator",
		Short: "Keep the status of Sites equal to the state of the Secrets that they name",
		Long: `Keep the status of Sites, a custom resource, equal to the state of the Secrets that they name.

With --cache=refwatch, the operator needs the right to list and watch those Secrets only, by name. With --cache=stock,
it needs the right to list and watch all Secrets of the cluster, and holds them all in memory.

Without --kubeconfig and --in-cluster, operator runs a demo: it starts an API server in its own process, changes objects
there, and prints how the status of the Sites changes.`,
		Example: `  operator --once
  operator --kubeconfig=$HOME/.kube/config
  operator --in-cluster --health-probe-bind-address=:8081`,
		SilenceUsage: true, // it would hide the error
	}
	cli.Simplify(command)
	f.addTo(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := f.validate(command.Flags().Changed); err != nil {
			return err
		}
		if f.kubeconfig == "" && !f.inCluster {
			return demo.Run(command.Context(), demo.Options{
				Out: command.OutOrStdout(), Once: f.once, MetricsAddress: f.options.MetricsAddress,
			})
		}
		return f.runOperator(command.Context())
	}
	return command
}

// addTo adds the flags to a set. component-base's cli package adds the log flags, -v and --vmodule.
func (f *flags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "Kubeconfig file of the cluster. Default: none, which runs the demo.")
	set.BoolVar(&f.inCluster, "in-cluster", false, "Use the service account of the operator's pod. Not with --kubeconfig.")
	set.BoolVar(&f.once, "once", false,
		"End after the demo's steps; the exit status is 0 only if every step succeeded. Not with a cluster.")
	set.StringVar(&f.cache, "cache", string(controller.Refwatch),
		"Cache of the Secrets: refwatch holds those that Sites name, stock holds all of the cluster. The demo has refwatch.")
	set.DurationVar(&f.options.CacheSyncTimeout, "cache-sync-timeout", 0,
		"How long the caches may take to start before the operator ends with an error. Default: two minutes.")
	set.BoolVar(&f.options.LeaderElection, "leader-elect", false, "Elect one of several replicas as the leader, with a Lease.")
	set.StringVar(&f.options.LeaderElectionNamespace, "leader-elect-namespace", "", "Namespace of the Lease. Default: that of the pod.")
	set.StringVar(&f.options.HealthProbeAddress, "health-probe-bind-address", "", "Address of /healthz and /readyz, as HOST:PORT. Default: none.")
	set.StringVar(&f.options.MetricsAddress, "metrics-bind-address", "",
		"Address of /metrics and of the page /debug/refwatch, as HOST:PORT, without authentication. Default: none.")
	set.StringVar(&f.options.PprofAddress, "pprof-bind-address", "", "Address of /debug/pprof, as HOST:PORT. Default: none.")
}

// validate returns an error for the first wrong flag. given reports whether a flag was given: an empty value mostly
// comes from an unset variable in a script, and must not start the demo.
func (f *flags) validate(given func(string) bool) error {
	cluster := f.kubeconfig != "" || f.inCluster
	f.options.Cache = controller.Cache(f.cache)
	switch {
	case f.kubeconfig == "" && given("kubeconfig"):
		return errors.New("--kubeconfig is empty: give a value or omit the flag")
	case f.options.Cache != controller.Refwatch && f.options.Cache != controller.Stock:
		return fmt.Errorf("--cache is %q: use %s or %s", f.cache, controller.Refwatch, controller.Stock)
	case f.kubeconfig != "" && f.inCluster:
		return errors.New("--kubeconfig and --in-cluster both name a cluster: omit one of the two")
	case cluster && f.once:
		return errors.New("--once is for the demo: omit it with a cluster")
	case !cluster && f.options.Cache == controller.Stock:
		return errors.New("--cache=stock needs --kubeconfig or --in-cluster: the demo shows refwatch")
	case f.options.CacheSyncTimeout < 0:
		return fmt.Errorf("--cache-sync-timeout is %v: use a positive duration", f.options.CacheSyncTimeout)
	}
	return nil
}

// runOperator runs the operator in a cluster until ctx ends.
func (f *flags) runOperator(ctx context.Context) error {
	config, err := f.config()
	if err != nil {
		return err
	}
	config.QPS = -1 // as controller-runtime's GetConfig: the server's priority and fairness is the limit
	mgr, err := controller.New(rest.AddUserAgent(config, "refwatch-operator"), f.options)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Starting", "server", config.Host, "cache", f.options.Cache)
	return mgr.Start(ctx)
}

// config returns the configuration of the cluster that the flags name.
func (f *flags) config() (*rest.Config, error) {
	if f.inCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("--in-cluster: %w", err)
		}
		return config, nil
	}
	// Opened here because clientcmd treats a missing file as an empty one.
	file, err := os.Open(f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig cannot be read: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("--kubeconfig cannot be read: %w", err)
	}
	config, err := cli.LoadKubeconfig(f.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s cannot be used: %w", f.kubeconfig, err)
	}
	return config, nil
}
