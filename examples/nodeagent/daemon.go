// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/logs"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/internal/cli"
	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/config"
	"github.com/refwatch/refwatch/examples/nodeagent/server"
	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/manager/debug"
)

// daemon runs the agent for a node of a cluster.
type daemon struct {
	given   map[string]string       // the flags that were given
	options atomic.Pointer[options] // in use; a reload replaces it
}

// runDaemon runs until ctx ends. It fails if it cannot start. A server that cannot be reached is no error: the agent
// waits for it. With a configuration file, SIGHUP reads it again.
func runDaemon(ctx context.Context, given map[string]string, o *options) error {
	d := &daemon{given: given}
	d.options.Store(o)
	var hangup chan os.Signal
	if o.configFile != "" {
		hangup = make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
	}
	var connections debug.Connections
	a, err := newAgent(o.config, &connections)
	if err != nil {
		return err
	}
	handler, err := newHandler(a, &connections, d.options.Load)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if o.config.Serves() {
		s, err := server.Listen(ctx, o.config.BindAddress)
		if err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Serving health checks, metrics and debug pages", "url", s.URL())
		group.Go(func() error { return s.Run(ctx, handler) })
	}
	group.Go(func() error { return a.Run(ctx) })
	group.Go(func() error {
		d.reloadOn(ctx, hangup)
		klog.FromContext(ctx).Info("Stopping")
		return nil
	})
	return group.Wait()
}

// newAgent returns an agent for the configuration. connections counts those of its client.
func newAgent(c *config.NodeAgentConfiguration, connections *debug.Connections) (*agent.Agent, error) {
	restConfig, err := clientConfig(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := manager.ClientFor(connections.Track(rest.AddUserAgent(restConfig, "refwatch-nodeagent")))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	gate, err := c.Gate()
	if err != nil {
		return nil, err
	}
	options := agent.Options{Client: client, NodeName: c.NodeName, RootDir: c.RootDir, FeatureGate: gate}
	if c.Tmpfs.Enabled {
		options.Tmpfs = &tmpfs.Options{Size: c.Tmpfs.Size.Value()}
	}
	return agent.New(options)
}

// clientConfig returns the config from a kubeconfig file, or from the service account of the pod if there is no file.
func clientConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("without a kubeconfig the agent uses the service account of its pod; if there is none, set --kubeconfig: %w", err)
		}
		return c, nil
	}
	// Opened here because clientcmd treats a missing file as an empty one.
	file, err := os.Open(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be read: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be read: %w", err)
	}
	c, err := cli.LoadKubeconfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig %s cannot be used: %w", kubeconfig, err)
	}
	return c, nil
}

// reloadOn reloads at each signal, until ctx ends.
func (d *daemon) reloadOn(ctx context.Context, signals <-chan os.Signal) {
	for {
		select {
		case <-signals:
			d.reload(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reload reads the configuration file and applies what can be changed at run time: the verbosity of the log. An invalid
// file changes nothing.
func (d *daemon) reload(ctx context.Context) {
	logger := klog.FromContext(ctx)
	o, err := complete(d.given)
	if err != nil {
		logger.Error(err, "Cannot reload the configuration: the one before stays in use")
		return
	}
	before := d.options.Load().config
	after := before.DeepCopyObject().(*config.NodeAgentConfiguration)
	after.Logging.Verbosity = o.config.Logging.Verbosity
	if _, err := logs.GlogSetter(strconv.Itoa(int(after.Logging.Verbosity))); err != nil {
		logger.Error(err, "Cannot change the verbosity of the log")
		return
	}
	inUse := newOptions(after)
	inUse.configFile = o.configFile
	d.options.Store(inUse)
	changed, needsRestart := config.Changed(before, after), config.Changed(after, o.config)
	if len(changed)+len(needsRestart) == 0 {
		logger.Info("Reloaded the configuration: nothing changed")
		return
	}
	logger.Info("Reloaded the configuration", "changed", changed, "needsRestart", needsRestart)
}
