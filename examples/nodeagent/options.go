// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json

	"github.com/refwatch/refwatch/examples/nodeagent/config"
)

// options are the flags, and the configuration that they write to. A reload makes new options: those in use are not
// changed.
type options struct {
	configFile string
	once       bool
	config     *config.NodeAgentConfiguration
	flags      cliflag.NamedFlagSets
}

// newOptions returns options with the defaults.
func newOptions(c *config.NodeAgentConfiguration) *options {
	o := &options{config: c}
	o.flags.NormalizeNameFunc = cliflag.WordSepNormalizeFunc
	agent := o.flags.FlagSet("agent")
	agent.StringVar(&o.configFile, "config", "",
		"File with a NodeAgentConfiguration. Flags override it. On SIGHUP it is read again.")
	agent.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig,
		"Kubeconfig file of the cluster. Default with --config: the service account of the agent's pod.")
	agent.StringVar(&c.NodeName, "node-name", c.NodeName, "Node whose volumes are written. Required; in the demo the default is node-1.")
	agent.StringVar(&c.RootDir, "root-dir", c.RootDir, "Folder for the volumes. Required; in the demo the default is a temporary folder.")
	agent.BoolVar(&c.Tmpfs.Enabled, "tmpfs", c.Tmpfs.Enabled,
		"Mount a tmpfs on each secret, projected and downwardAPI volume. Needs Linux and CAP_SYS_ADMIN.")
	agent.Var(&c.Tmpfs.Size, "tmpfs-size", "Most that one such volume may hold: two versions during an update.")
	agent.Var(cliflag.NewMapStringBool(&c.FeatureGates), "feature-gates",
		"Feature gates of refwatch as Name=true,…:\n"+strings.Join(config.KnownGates(), "\n"))

	serving := o.flags.FlagSet("serving")
	serving.StringVar(&c.BindAddress, "bind-address", c.BindAddress,
		"IP address and port for health checks, metrics and debug pages. They have no authentication. 0 turns them off. In the demo any free port is the default.")

	demo := o.flags.FlagSet("demo")
	demo.BoolVar(&o.once, "once", false, "End after the demo's steps; the exit status is 0 only if every step succeeded.")

	logging := o.flags.FlagSet("logging")
	logsapi.AddFlags(&c.Logging, logging)
	logging.VisitAll(func(f *pflag.Flag) {
		f.Hidden = strings.HasPrefix(f.Usage, "[Alpha]") // for a feature gate that the agent does not have
	})
	globalflag.AddGlobalFlags(o.flags.FlagSet("global"), "nodeagent", logs.SkipLoggingConfigurationFlags())
	return o
}

// complete returns valid options from the configuration file and the flags that were given, which override it. given
// holds the values of these flags by name.
func complete(given map[string]string) (*options, error) {
	// An empty value mostly comes from an unset variable in a script, and must not start the demo.
	for _, name := range []string{"config", "kubeconfig", "node-name", "root-dir"} {
		if value, ok := given[name]; ok && value == "" {
			return nil, fmt.Errorf("--%s is empty: give a value or omit the flag", name)
		}
	}
	c := config.Default()
	if file := given["config"]; file != "" {
		var err error
		if c, err = config.Load(file); err != nil {
			return nil, err
		}
	}
	o := newOptions(c)
	gates := maps.Clone(c.FeatureGates)
	for _, set := range o.flags.FlagSets {
		for name, value := range given {
			if set.Lookup(name) == nil {
				continue
			}
			if err := set.Set(name, value); err != nil {
				return nil, fmt.Errorf("--%s: %w", name, err)
			}
		}
	}
	// Setting the flag has removed the gates of the file.
	for name, on := range gates {
		if _, ok := c.FeatureGates[name]; !ok {
			c.FeatureGates[name] = on
		}
	}
	if _, ok := given["bind-address"]; o.demo() && !ok {
		c.BindAddress = "127.0.0.1:0"
	}
	return o, o.validate()
}

// demo reports whether the demo runs. The environment is ignored: with KUBECONFIG set, a user who wants the demo would
// run an agent against a cluster.
func (o *options) demo() bool { return o.configFile == "" && o.config.Kubeconfig == "" }

func (o *options) validate() error {
	check := *o.config
	if o.demo() { // it has defaults of its own
		check.NodeName, check.RootDir = cmp.Or(check.NodeName, "node-1"), cmp.Or(check.RootDir, ".")
	} else if o.once {
		return errors.New("--once is for the demo, and --config and --kubeconfig for a cluster: omit one of them")
	}
	invalid := config.Validate(&check).ToAggregate()
	if o.demo() || invalid == nil {
		return invalid
	}
	// A missing cluster is named first: the rest may be in the configuration of another node.
	_, noCluster := clientConfig(o.config.Kubeconfig)
	return errors.Join(noCluster, invalid)
}
