// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Cluster is a running control plane. [Start] and [New] make one.
type Cluster struct {
	// APIServer is the kube-apiserver. It keeps its address when it is restarted.
	APIServer *Process
	// Etcd is the etcd that the API server stores its objects in.
	Etcd *Process
	// Proxy stands in front of the API server, for clients that go [Cluster.ThroughProxy].
	Proxy *Proxy

	dir       string // all its files, gone after Stop
	guard     *guard
	port      *port
	authority *authority
	admin     *rest.Config
	etcd      *etcd

	stop    sync.Once
	stopErr error
}

// New starts a cluster for a test, and stops it when the test has ended. It fails the test if it cannot.
func New(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	cluster, err := Start(tb.Context(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return cluster
}

// Start builds the control plane if need be, see [Build], and starts it. When it returns the server is ready, and
// the namespace default exists. Stop the cluster when done with it; ctx only bounds the start.
//
// The error of a process that does not get ready within two minutes carries the last lines of its output.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	binaries, err := Build(ctx, options.log())
	if err != nil {
		return nil, err
	}
	start := time.Now()
	c := &Cluster{}
	if err := c.start(ctx, binaries, options); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	say(options.log(), "control plane ready after %v at %s", time.Since(start).Round(time.Millisecond), c.admin.Host)
	return c, nil
}

// start fills in the cluster step by step. What it leaves nil was not reached.
func (c *Cluster) start(ctx context.Context, binaries Binaries, options Options) (err error) {
	if c.dir, err = os.MkdirTemp("", "refwatch-e2e-"); err != nil { // for its owner's eyes only
		return fmt.Errorf("making a folder for the cluster: %w", err)
	}
	if c.guard, err = newGuard(c.dir); err != nil {
		return errors.Join(err, os.RemoveAll(c.dir))
	}
	if c.port, err = reservePort(); err != nil {
		return err
	}
	if c.authority, err = newAuthority(); err != nil {
		return err
	}
	if err = writeAPIServerFiles(c.dir, c.authority); err != nil {
		return err
	}
	if c.Proxy, err = newTCPProxy(c.port.addr); err != nil {
		return err
	}
	c.admin = c.Admin()
	c.etcd = newEtcd(c.dir)
	c.Etcd = newProcess("etcd", c.dir, binaries.Etcd, c.etcd.args(), c.etcd.ready)
	c.APIServer = newProcess("kube-apiserver", c.dir, binaries.APIServer, apiServerArgs(c.dir, c.port, c.etcd, options),
		func(ctx context.Context) error { return apiServerReady(ctx, c.admin) })
	if err = c.Etcd.Restart(ctx); err != nil {
		return err
	}
	return c.APIServer.Restart(ctx)
}

// Stop kills the processes and removes their files. Calling it again returns what the first call did.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		if c.APIServer != nil {
			c.APIServer.Kill()
			c.Etcd.Kill()
		}
		if c.Proxy != nil {
			c.Proxy.close()
		}
		if c.port != nil {
			c.stopErr = c.port.release()
		}
		if c.guard != nil {
			c.stopErr = errors.Join(c.stopErr, c.guard.close())
		}
	})
	return c.stopErr
}

// Compact makes etcd forget all former versions of all objects, as the API server has it do every five minutes.
//
// The API server's watch cache still remembers for a while: what is asked for then comes from there. Restart
// the server, or start it with "--watch-cache-sizes=RESOURCE#0", to see a watch at an old version expire.
func (c *Cluster) Compact(ctx context.Context) error {
	revision, err := c.etcd.revision(ctx)
	if err != nil {
		return err
	}
	err = c.etcd.compact(ctx, revision)
	if refused, ok := errors.AsType[*etcdError](err); ok && refused.Code == etcdCompacted {
		return nil // nothing was written since the last time
	}
	return err
}

// Corrupt overwrites an object of the core group in etcd with bytes that are no object. Who asks the API server for it
// by name gets a 500 from then on. So does who lists its resource, and the watch cache does that: start the server with
// "--watch-cache-sizes=RESOURCE#0" to have the other objects of the resource served.
func (c *Cluster) Corrupt(ctx context.Context, resource, namespace, name string) error {
	return c.etcd.put(ctx, "/registry/"+resource+"/"+namespace+"/"+name, []byte("no object"))
}

// path is that of one of the cluster's files.
func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }
