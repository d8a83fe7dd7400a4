// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/ingresstls/controller"
	"github.com/refwatch/refwatch/examples/ingresstls/demo"
	"github.com/refwatch/refwatch/examples/ingresstls/web"
	"github.com/refwatch/refwatch/examples/internal/cli"
	"github.com/refwatch/refwatch/manager"
)

const (
	// defaultAddress is the address with a cluster. The demo takes any free port.
	defaultAddress = "127.0.0.1:8443"

	// syncTimeout is how long connections wait for Secrets that cannot be read when the program starts.
	syncTimeout = 10 * time.Second

	userAgent = "refwatch-ingresstls"
)

// flags are the values of the command line. Environment variables are ignored: with KUBECONFIG set, a user who wants
// the demo would serve the Ingresses of a cluster.
type flags struct {
	kubeconfig         string
	inCluster          bool
	bindAddress        string
	namespace          string
	ingressClass       string
	defaultCertificate string
	printRoles         bool
	once               bool
	rotateInterval     time.Duration
}

// newCommand returns the command. It prints to its OutOrStdout and ends when its context does.
func newCommand() *cobra.Command {
	f := &flags{}
	command := &cobra.Command{
		Use:   "ingresstls",
		Short: "Serve HTTPS with the certificates of the Secrets that Ingresses reference",
		Long: `Serve HTTPS with the certificates of the Secrets that Ingresses reference. Each request is answered with the
certificate that its connection presented; requests are not routed to backends.

Without --kubeconfig and --in-cluster, ingresstls runs a demo: it starts an API server in its own process, changes
Ingresses and Secrets there, prints what clients get, and then keeps running for curl and kubectl.`,
		Example: `  ingresstls --once
  ingresstls --kubeconfig=$HOME/.kube/config --print-roles | kubectl apply -f -
  ingresstls --kubeconfig=$HOME/.kube/config --bind-address=:443 --ingress-class=tls`,
		SilenceUsage: true, // it would hide the error
	}
	cli.Simplify(command)
	f.addTo(command.Flags())
	command.RunE = func(command *cobra.Command, _ []string) error {
		if err := f.validate(command.Flags().Changed); err != nil {
			return err
		}
		if !f.cluster() {
			return demo.Run(command.Context(), demo.Options{
				Out: command.OutOrStdout(), Address: f.bindAddress, Once: f.once, RotateInterval: f.rotateInterval,
			})
		}
		c, err := f.newController()
		if err != nil {
			return err
		}
		if f.printRoles {
			return printRoles(command.Context(), command.OutOrStdout(), c)
		}
		return serve(command.Context(), c, cmp.Or(f.bindAddress, defaultAddress))
	}
	return command
}

// addTo adds the flags to a set. component-base's cli package adds the log flags, -v and --vmodule.
func (f *flags) addTo(set *pflag.FlagSet) {
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"Kubeconfig file of the cluster. Default: none, which runs the demo.")
	set.BoolVar(&f.inCluster, "in-cluster", false, "Use the service account of the program's pod. Not with --kubeconfig.")
	set.StringVar(&f.bindAddress, "bind-address", "",
		"IP and port of the HTTPS server. Default: "+defaultAddress+"; in the demo any free port.")
	set.StringVar(&f.namespace, "namespace", "", "Namespace of the Ingresses. Default: all. Not in the demo.")
	set.StringVar(&f.ingressClass, "ingress-class", "",
		"Serve only Ingresses with this spec.ingressClassName. Default: all. Not in the demo.")
	set.StringVar(&f.defaultCertificate, "default-certificate", "",
		"NAMESPACE/NAME of the Secret for hosts without a certificate. Default: none, such clients get the TLS alert "+
			"unrecognized_name. Not in the demo.")
	set.BoolVar(&f.printRoles, "print-roles", false,
		"Print the Roles for the Secrets that the cluster's Ingresses reference now, and end. Not in the demo.")
	set.BoolVar(&f.once, "once", false,
		"End after the demo's steps; the exit status is 0 only if every step succeeded. Not with a cluster.")
	set.DurationVar(&f.rotateInterval, "rotate-interval", 10*time.Second,
		"Time between two rotations after the demo's steps; 0 for none. Not with a cluster.")
}

// validate returns an error for the first wrong flag. given reports whether a flag was given.
func (f *flags) validate(given func(string) bool) error {
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", f.kubeconfig}, {"bind-address", f.bindAddress}, {"namespace", f.namespace},
		{"ingress-class", f.ingressClass}, {"default-certificate", f.defaultCertificate},
	} {
		// An empty value mostly comes from an unset variable in a script, and must not start the demo.
		if flag.value == "" && given(flag.name) {
			return fmt.Errorf("--%s is empty: give a value or omit the flag", flag.name)
		}
	}
	if f.kubeconfig != "" && f.inCluster {
		return errors.New("--kubeconfig and --in-cluster both name a cluster: omit one of the two")
	}
	other, of := []string{"namespace", "ingress-class", "default-certificate", "print-roles"}, "a cluster: give --kubeconfig or --in-cluster"
	if f.cluster() {
		other, of = []string{"once", "rotate-interval"}, "the demo: omit it, or omit --kubeconfig and --in-cluster"
	}
	for _, name := range other {
		if given(name) {
			return fmt.Errorf("--%s is for %s", name, of)
		}
	}
	if f.rotateInterval < 0 {
		return errors.New("--rotate-interval is negative: give 0 for no rotations")
	}
	if _, _, err := net.SplitHostPort(cmp.Or(f.bindAddress, defaultAddress)); err != nil {
		return fmt.Errorf("--bind-address %q is not IP:PORT: %w", f.bindAddress, err)
	}
	if namespace, name, ok := strings.Cut(f.defaultCertificate, "/"); f.defaultCertificate != "" && (!ok || namespace == "" || name == "") {
		return fmt.Errorf("--default-certificate %q is not NAMESPACE/NAME", f.defaultCertificate)
	}
	return nil
}

// cluster reports whether the flags name a cluster.
func (f *flags) cluster() bool { return f.kubeconfig != "" || f.inCluster }

// newClient returns a client of the cluster.
func (f *flags) newClient() (kubernetes.Interface, error) {
	name, load := "--kubeconfig "+f.kubeconfig, func() (*rest.Config, error) { return cli.LoadKubeconfig(f.kubeconfig) }
	if f.inCluster {
		name, load = "--in-cluster", rest.InClusterConfig
	}
	config, err := load()
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", name, err)
	}
	client, err := manager.ClientFor(rest.AddUserAgent(config, userAgent))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w", name, err)
	}
	return client, nil
}

// newController returns the controller for the cluster.
func (f *flags) newController() (*controller.Controller, error) {
	client, err := f.newClient()
	if err != nil {
		return nil, err
	}
	namespace, name, _ := strings.Cut(f.defaultCertificate, "/")
	return controller.New(controller.Options{
		Client: client, Namespace: f.namespace, IngressClass: f.ingressClass,
		DefaultCertificate: types.NamespacedName{Namespace: namespace, Name: name},
	})
}

// printRoles prints the Roles that the controller needs now, as YAML for kubectl apply.
func printRoles(ctx context.Context, out io.Writer, c *controller.Controller) error {
	if err := c.ListIngresses(ctx); err != nil {
		return fmt.Errorf("listing the Ingresses: %w", err)
	}
	text, err := c.RolesYAML(userAgent)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}

// serve serves the Ingresses of the cluster until ctx ends. It accepts connections when the certificates are in memory:
// until then a load balancer must use another instance.
func serve(ctx context.Context, c *controller.Controller, address string) error {
	logger := klog.FromContext(ctx)
	ctx, end := context.WithCancel(ctx)
	defer end()
	// The controller runs until the last request has ended.
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var group errgroup.Group
	group.Go(func() error {
		defer end()
		return c.Run(running)
	})
	group.Go(func() error {
		defer stop()
		if err := waitForSync(ctx, c); err != nil {
			return nil //nolint:nilerr // ctx has ended before the first connection
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("--bind-address %s cannot be used: %w", address, err)
		}
		logger.Info("Serving HTTPS", "address", listener.Addr(), "hosts", len(c.Status()))
		return web.Serve(ctx, listener, c)
	})
	return group.Wait()
}

// waitForSync waits for the Ingresses for as long as it takes, and for the Secrets for syncTimeout. It returns an error
// if ctx ends.
func waitForSync(ctx context.Context, c *controller.Controller) error {
	if err := c.WaitForIngresses(ctx); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if err := c.WaitForSync(wait); err != nil {
		klog.FromContext(ctx).Error(err, "Serving without these certificates")
	}
	return ctx.Err()
}
