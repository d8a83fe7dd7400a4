// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"k8s.io/client-go/rest"
)

// Replica is a further kube-apiserver on the etcd of a [Cluster].
type Replica struct {
	*Process
	// Proxy is a proxy in front of the server, for clients.
	Proxy *Proxy
	// Etcd is the proxy through which the server connects to etcd. With [Proxy.Cut] and [Proxy.BlackHole] it cuts the
	// server off, and with [Proxy.Delay] the server lags.
	Etcd *Proxy

	port *port
}

// AddReplica starts a further API server with the options of the cluster, and returns when it is ready. args are
// appended to Options.APIServerArgs. [Cluster.Restore], [Cluster.Stop] and [Cluster.Metric] include it.
// [Cluster.AuditEvents] does not.
func (c *Cluster) AddReplica(ctx context.Context, args ...string) (*Replica, error) {
	binaries, err := Build(ctx, c.options.log())
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	number := len(c.replicas) + 2
	c.mu.Unlock()
	socket := c.path(fmt.Sprintf("etcd-%d.sock", number))
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of etcd: %w", err)
	}
	r := &Replica{Etcd: newProxy(listener, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", c.etcd.socket)
	})}
	if r.port, err = reservePort(); err != nil {
		r.Etcd.close()
		return nil, err
	}
	if r.Proxy, err = newTCPProxy(r.port.addr); err != nil {
		r.Etcd.close()
		return nil, errors.Join(err, r.port.release())
	}
	options := c.options // those of the cluster override the file of the log
	audit := "--audit-log-path=" + c.path(fmt.Sprintf("audit-%d.log", number))
	options.APIServerArgs = slices.Concat([]string{audit}, options.APIServerArgs, args)
	config := r.At(c.admin)
	args = apiServerArgs(c.dir, r.port, "unix://"+socket, options)
	r.Process = newProcess(fmt.Sprintf("kube-apiserver-%d", number), c.dir, binaries.APIServer, args,
		func(ctx context.Context) error { return apiServerReady(ctx, config) })
	c.mu.Lock()
	c.replicas = append(c.replicas, r) // from here on Stop ends it
	c.mu.Unlock()
	return r, r.Restart(ctx)
}

// At returns a copy of config that connects to the replica directly.
func (r *Replica) At(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + r.port.addr
	return config
}

func (c *Cluster) allReplicas() []*Replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.replicas)
}

// RotateCertificate writes a new certificate of the API servers, by the same authority. The servers read it again
// when they notice that the files have changed, and use it for new connections.
func (c *Cluster) RotateCertificate() error { return writeCertificate(c.dir, c.authority) }
