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

// Cluster is a running control plane. [Start] and [New] return one.
type Cluster struct {
	// APIServer is the kube-apiserver. It keeps its address when it is restarted.
	APIServer *Process
	// Etcd is the etcd of the API server.
	Etcd *Process
	// Proxy is a proxy in front of the API server, for clients with [Cluster.ThroughProxy].
	Proxy *Proxy

	dir       string // has all files of the cluster; removed by Stop
	guard     *guard
	port      *port
	authority *authority
	admin     *rest.Config
	etcd      *etcd
	options   Options

	stop    sync.Once
	stopErr error

	mu       sync.Mutex
	replicas []*Replica
}

// New starts a cluster for a test, and stops it when the test ends. If it cannot, it fails the test.
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

// Start builds the control plane if necessary, see [Build], and starts it. It returns when the server is ready and the
// namespace default exists. The caller stops the cluster; ctx bounds only the start.
//
// If a process is not ready within two minutes, the error has the last lines of its output.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	binaries, err := Build(ctx, options.log())
	if err != nil {
		return nil, err
	}
	start := time.Now()
	c := &Cluster{options: options}
	if err := c.start(ctx, binaries, options); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	logf(options.log(), "control plane ready after %v at %s", time.Since(start).Round(time.Millisecond), c.admin.Host)
	return c, nil
}

// start sets the fields of the cluster one by one. After an error the remaining fields are nil.
func (c *Cluster) start(ctx context.Context, binaries Binaries, options Options) (err error) {
	if c.dir, err = os.MkdirTemp("", "refwatch-e2e-"); err != nil { // mode 0700
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
	c.APIServer = newProcess("kube-apiserver", c.dir, binaries.APIServer, apiServerArgs(c.dir, c.port, c.etcd.url(), options),
		func(ctx context.Context) error { return apiServerReady(ctx, c.admin) })
	if err = c.Etcd.Restart(ctx); err != nil {
		return err
	}
	return c.APIServer.Restart(ctx)
}

// Stop kills the processes and removes their files. Further calls return the result of the first.
func (c *Cluster) Stop() error {
	c.stop.Do(func() {
		for _, replica := range c.allReplicas() {
			replica.Kill()
			replica.Proxy.close()
			replica.Etcd.close()
			c.stopErr = errors.Join(c.stopErr, replica.port.release())
		}
		if c.APIServer != nil {
			c.APIServer.Kill()
			c.Etcd.Kill()
		}
		if c.Proxy != nil {
			c.Proxy.close()
		}
		if c.port != nil {
			c.stopErr = errors.Join(c.stopErr, c.port.release())
		}
		if c.guard != nil {
			c.stopErr = errors.Join(c.stopErr, c.guard.close())
		}
	})
	return c.stopErr
}

// Compact removes all old versions of all objects from etcd, as the API server does every five minutes.
//
// The API server's watch cache keeps old versions longer, and serves them. To see a watch at an old version expire,
// restart the server, or start it with "--watch-cache-sizes=RESOURCE#0".
func (c *Cluster) Compact(ctx context.Context) error {
	revision, err := c.etcd.revision(ctx)
	if err != nil {
		return err
	}
	err = c.etcd.compact(ctx, revision)
	if refused, ok := errors.AsType[*etcdError](err); ok && refused.Code == etcdCompacted {
		return nil // no write since the last compaction
	}
	return err
}

// Corrupt overwrites an object of the core group in etcd with invalid bytes. The API server answers 500 to requests for
// the object by name and to lists of its resource. The watch cache lists the resource too: start the server with
// "--watch-cache-sizes=RESOURCE#0" if it must serve the other objects.
func (c *Cluster) Corrupt(ctx context.Context, resource, namespace, name string) error {
	return c.etcd.put(ctx, key(resource, namespace, name), []byte("no object"))
}

// Erase removes an object of the core group from etcd, also one that the API server cannot decode.
func (c *Cluster) Erase(ctx context.Context, resource, namespace, name string) error {
	return c.etcd.remove(ctx, key(resource, namespace, name))
}

// key returns the key of an object of the core group in etcd.
func key(resource, namespace, name string) string {
	return "/registry/" + resource + "/" + namespace + "/" + name
}

// path returns the path of a file of the cluster.
func (c *Cluster) path(name string) string { return filepath.Join(c.dir, name) }
