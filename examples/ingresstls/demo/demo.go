// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/ingresstls/ca"
	"github.com/refwatch/refwatch/examples/ingresstls/controller"
	"github.com/refwatch/refwatch/examples/ingresstls/web"
	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Options configures the demo. Only Out is required.
type Options struct {
	// Out receives the output. Required.
	Out io.Writer
	// Address is the IP and port of the HTTPS server. Default: any free port of 127.0.0.1.
	Address string
	// Once ends the demo after the steps. Default: it runs until the context ends.
	Once bool
	// RotateInterval is the time between two rotations after the steps. Default: no rotations.
	RotateInterval time.Duration
}

// Run runs the demo. It returns nil only if every check of every step succeeded, and all servers stopped without an
// error. If ctx ends during the steps, Run returns an error. If ctx ends later, it does not.
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
	if err := d.start(ctx, cmp.Or(options.Address, "127.0.0.1:0")); err != nil {
		return err
	}
	d.printf("API server  %s, in this process\nHTTPS       https://%s\n", d.server.URL(), d.address)
	if err := steps.Run(ctx, d.out, d.scenario()); err != nil || options.Once {
		return err
	}
	return d.interactive(ctx, options.RotateInterval)
}

// demo is an API server, a controller, an HTTPS server, and the state of the scenario.
type demo struct {
	out        io.Writer
	dir        string // temporary folder; holds the CA certificate and the kubeconfig
	server     *apiserver.Server
	authority  *ca.Authority
	controller *controller.Controller
	address    *net.TCPAddr     // of the HTTPS server
	serials    map[string]int64 // of the newest certificate of each Secret, by NAMESPACE/NAME

	stop    context.CancelFunc // ends what runs
	running errgroup.Group     // the controller and the HTTPS server
}

// userAgent distinguishes the requests of the controller from those of the demo and of kubectl.
const userAgent = "refwatch-ingresstls"

func newDemo(options Options) (*demo, error) {
	dir, err := os.MkdirTemp("", "refwatch-ingresstls-")
	if err != nil {
		return nil, fmt.Errorf("making a temporary folder: %w", err)
	}
	authority, err := ca.New()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &demo{out: options.Out, dir: dir, server: server, authority: authority, serials: map[string]int64{}, stop: func() {}}, nil
}

// start starts the controller and the HTTPS server.
func (d *demo) start(ctx context.Context, address string) (err error) {
	client, err := manager.ClientFor(rest.AddUserAgent(d.server.Config(), userAgent))
	if err != nil {
		return err
	}
	if d.controller, err = controller.New(controller.Options{Client: client}); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--bind-address %s cannot be used: %w", address, err)
	}
	d.address = listener.Addr().(*net.TCPAddr)
	// They run until close: what ends ctx must not end them before the last check.
	ctx, d.stop = context.WithCancel(context.WithoutCancel(ctx))
	d.running.Go(func() error { return web.Serve(ctx, listener, d.controller) })
	d.running.Go(func() error { return d.controller.Run(ctx) })
	return nil
}

// close stops everything and removes the temporary folder.
func (d *demo) close() error {
	d.stop()
	err := d.running.Wait()
	// After the controller, which would retry against a closed server.
	d.server.Close()
	return errors.Join(err, os.RemoveAll(d.dir))
}

// printf writes to Out and ignores errors: the result of the demo is what Run returns.
func (d *demo) printf(format string, args ...any) { _, _ = fmt.Fprintf(d.out, format, args...) }
