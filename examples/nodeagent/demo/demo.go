// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/server"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Options configures the demo. Only Out is required.
type Options struct {
	// Out receives the output. Required.
	Out io.Writer
	// NodeName is the node of the demo's pods. Default: "node-1".
	NodeName string
	// RootDir is the agent's folder, which is kept. Default: a temporary folder, which is removed at the end.
	RootDir string
	// Once ends the demo after the scenario. Default: server and agent run until the context ends.
	Once bool
	// FeatureGate is passed to the agent. Default: refwatch's defaults.
	FeatureGate featuregate.FeatureGate
	// BindAddress is served after the scenario. Default: none.
	BindAddress string
	// Handler returns the handler for BindAddress. Required with it.
	Handler func(*agent.Agent) (http.Handler, error)
}

// Run runs the scenario. It returns nil only if every check of every step succeeded, and server and agent stopped
// without an error. If ctx ends during the scenario, Run returns an error. If ctx ends later, it does not.
func Run(ctx context.Context, options Options) (err error) {
	if !klog.V(1).Enabled() {
		// The scenario causes errors on purpose, and prints them itself.
		ctx = klog.NewContext(ctx, logr.Discard())
	}
	d, err := newDemo(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.printf("API server  %s, in this process\nnode        %s\nfolder      %s\n", d.server.URL(), d.node, d.root)
	if options.Once || options.BindAddress == "" {
		return d.run(ctx, options.Once)
	}
	// Before the scenario, which takes seconds: the address may be in use.
	s, err := server.Listen(ctx, options.BindAddress)
	if err != nil {
		return err
	}
	if err := steps.Run(ctx, d.out, d.scenario()); err != nil {
		return errors.Join(err, s.Close())
	}
	handler, err := options.Handler(d.agent.Agent)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(ctx, handler) })
	group.Go(func() error { return d.interactive(ctx, s.URL()) })
	return group.Wait()
}

// run runs the scenario, and then keeps running without pages unless once is set.
func (d *demo) run(ctx context.Context, once bool) error {
	if err := steps.Run(ctx, d.out, d.scenario()); err != nil || once {
		return err
	}
	return d.interactive(ctx, "none")
}

// demo is a server, an agent, and the state of the scenario.
type demo struct {
	out    io.Writer
	server *apiserver.Server
	client kubernetes.Interface // the demo's own; the agent has another, with its own connections
	gate   featuregate.FeatureGate
	node   string
	dir    string                 // temporary folder; holds the kubeconfig and the manifest
	root   string                 // the agent's folder
	pods   map[string]*corev1.Pod // as created, by name; deleted pods stay
	agent  *runningAgent          // nil while none runs
}

func newDemo(options Options) (*demo, error) {
	dir, err := os.MkdirTemp("", "refwatch-nodeagent-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &demo{
		out:    options.Out,
		server: server,
		client: server.Client(),
		gate:   options.FeatureGate,
		node:   cmp.Or(options.NodeName, "node-1"),
		dir:    dir,
		root:   cmp.Or(options.RootDir, filepath.Join(dir, "root")),
		pods:   map[string]*corev1.Pod{},
	}, nil
}

// close stops agent and server and removes the temporary folder. A root folder that the user named is kept.
func (d *demo) close() error {
	err := d.stopAgent()
	// After the agent, which would retry against a closed server.
	d.server.Close()
	return errors.Join(err, os.RemoveAll(d.dir))
}

// printf writes to Out and ignores errors: the result of the demo is what Run returns.
func (d *demo) printf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }

// running is an agent and the goroutine that runs it.
type runningAgent struct {
	*agent.Agent

	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // returned by Run; valid once done is closed
}

// startAgent starts an agent on the root folder, and does not wait for its first sync.
func (d *demo) startAgent(ctx context.Context) error {
	client, err := manager.ClientFor(d.server.Config())
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Client: client, NodeName: d.node, RootDir: d.root, FeatureGate: d.gate})
	if err != nil {
		return err
	}
	// The agent outlives the step that starts it: it inherits the values of ctx, such as the logger, but not its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &runningAgent{Agent: a, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = a.Run(ctx)
	}()
	d.agent = r
	return nil
}

// stopAgent stops the agent, if one runs, and returns the error of its Run.
func (d *demo) stopAgent() error {
	if d.agent == nil {
		return nil
	}
	d.agent.cancel()
	<-d.agent.done
	err := d.agent.err
	d.agent = nil
	return err
}
