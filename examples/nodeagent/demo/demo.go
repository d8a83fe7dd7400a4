// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Options says how the story is told. Only Out is required.
type Options struct {
	// Out is where the story is told. Required.
	Out io.Writer
	// NodeName is the node of the story's pods. Default: "node-1".
	NodeName string
	// RootDir is the agent's folder; it stays at the end. Default: a temporary one, which is removed.
	RootDir string
	// Once ends the demo after the story. Default: it stays up until the context ends.
	Once bool
	// FeatureGate is handed to the agent. Default: refwatch's defaults.
	FeatureGate featuregate.FeatureGate
}

// Run tells the story. It returns nil only if every fact of every step was observed, and everything could be
// shut down in good order. A story that ctx ends early is an error; once it has been told, ctx ends the demo
// without one.
func Run(ctx context.Context, options Options) (err error) {
	if !klog.V(1).Enabled() {
		// The story has errors in it on purpose, and tells them itself.
		ctx = klog.NewContext(ctx, logr.Discard())
	}
	d, err := newDemo(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.say("API server  %s, in this process\nnode        %s\nfolder      %s\n", d.server.URL(), d.node, d.root)
	if err := d.tell(ctx, d.story()); err != nil {
		return err
	}
	if options.Once {
		return nil
	}
	return d.stay(ctx)
}

// demo is the stage: a server, an agent, and what the story knows of them.
type demo struct {
	out    io.Writer
	server *apiserver.Server
	client kubernetes.Interface // the story's own; the agent shares no connection with it
	gate   featuregate.FeatureGate
	node   string
	dir    string                 // for what is no volume: kubeconfig, manifest
	root   string                 // the agent's folder
	pods   map[string]*corev1.Pod // as they were created, by name; those that are gone too
	agent  *running               // nil while none runs
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

// close ends what runs and removes the temporary folder. A root folder that the user named is not in it.
func (d *demo) close() error {
	err := d.stopAgent()
	// After the agent, which would only try to reach it again and again.
	d.server.Close()
	return errors.Join(err, os.RemoveAll(d.dir))
}

// say prints. If nobody reads any more the story goes on, for its outcome is what Run returns.
func (d *demo) say(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }

// running is an agent and the goroutine that runs it.
type running struct {
	*agent.Agent

	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
	err    error         // what Run returned; to be read after done only
}

// startAgent starts an agent on the root folder. It does not wait until the agent has done anything.
func (d *demo) startAgent(ctx context.Context) error {
	client, err := manager.ClientFor(d.server.Config())
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Options{Client: client, NodeName: d.node, RootDir: d.root, FeatureGate: d.gate})
	if err != nil {
		return err
	}
	// It outlives the step that starts it, so it takes the values of ctx, such as the logger, and not its end.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{Agent: a, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = a.Run(ctx)
	}()
	d.agent = r
	return nil
}

// stopAgent stops the agent, if one runs, waits for it, and returns what its Run returned.
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
