// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/operator/controller"
	"github.com/refwatch/refwatch/examples/operator/webv1"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Options configures the demo.
type Options struct {
	// Out receives the output. Required.
	Out io.Writer
	// Once ends the demo after the scenario. Default: server and operator run until the context ends.
	Once bool
	// MetricsAddress is where the operator serves /metrics and /debug/refwatch, as HOST:PORT. Default: nowhere.
	MetricsAddress string
}

// Run runs the scenario. It returns nil only if every check of every step succeeded, and the operator stopped without
// an error. If ctx ends during the scenario, Run returns an error. If ctx ends later, it does not.
func Run(ctx context.Context, options Options) (err error) {
	d, err := newDemo(options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.printf("API server  %s, in this process\n", d.server.URL())
	if d.metrics != "" {
		d.printf("Debug page  http://%s/debug/refwatch\n", d.metrics)
	}
	if err := steps.Run(ctx, d.out, d.scenario()); err != nil {
		return err
	}
	if options.Once {
		return nil
	}
	return d.interactive(ctx)
}

// demo is a server and an operator.
type demo struct {
	out     io.Writer
	metrics string // address of the operator's metrics; empty for none
	dir     string // temporary folder for the kubeconfig
	server  *apiserver.Server
	role    *role
	client  client.WithWatch // of a user who may do everything

	cancel context.CancelFunc // stops the operator; nil before it is started
	done   chan struct{}      // closed when the operator has ended
	err    error              // of the operator; valid once done is closed
}

func newDemo(options Options) (*demo, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), webv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	role, err := newRole()
	if err != nil {
		return nil, err
	}
	server, err := apiserver.Start(apiserver.Options{CustomResources: []apiserver.CustomResource{{
		Group: webv1.GroupVersion.Group, Version: webv1.GroupVersion.Version, Resource: "sites", Kind: "Site",
		StatusSubresource: true,
	}}})
	if err != nil {
		return nil, err
	}
	d := &demo{out: options.Out, metrics: options.MetricsAddress, server: server, role: role, done: make(chan struct{})}
	server.Authorize(role.allows)
	config := server.Config()
	config.QPS = -1 // no limit: the demo creates many objects
	if d.client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if d.dir, err = os.MkdirTemp("", "refwatch-operator-"); err != nil {
		return nil, errors.Join(fmt.Errorf("making a temporary folder: %w", err), d.close())
	}
	return d, nil
}

// close stops the operator and the server.
func (d *demo) close() error {
	var err error
	if d.cancel != nil {
		d.cancel()
		<-d.done
		err = d.err
	}
	d.server.Close() // after the operator, which would retry against a closed server
	return errors.Join(err, os.RemoveAll(d.dir))
}

// printf writes to Out and ignores errors: the result of the demo is what Run returns.
func (d *demo) printf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }

// startOperator starts the operator, and does not wait for its first reconcile.
func (d *demo) startOperator(ctx context.Context) error {
	log := klog.FromContext(ctx)
	if !klog.V(1).Enabled() {
		// The scenario causes errors on purpose, and prints them itself. logr.Discard is not for it: its zero value
		// is the default.
		log = funcr.New(func(string, string) {}, funcr.Options{})
	}
	mgr, err := controller.New(rest.AddUserAgent(d.server.Config(), operatorAgent), controller.Options{Logger: log, MetricsAddress: d.metrics})
	if err != nil {
		return err
	}
	// The operator outlives the step that starts it.
	ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(d.done)
		d.err = mgr.Start(ctx)
	}()
	return nil
}
