// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
)

// Snapshot is a copy of etcd's data. It is gone after [Cluster.Stop].
type Snapshot struct{ dir string }

// Snapshot copies etcd's data: all that was acknowledged before. etcd stands still for the time it takes, some
// tenths of a second, in which its files are what they would be after a kill -9: that is what etcd recovers from.
// A paused etcd goes on afterwards.
func (c *Cluster) Snapshot(ctx context.Context) (*Snapshot, error) {
	defer c.Etcd.take()()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("copying etcd's data: %w", err)
	}
	dir, err := os.MkdirTemp(c.dir, "snapshot-")
	if err != nil {
		return nil, fmt.Errorf("copying etcd's data: %w", err)
	}
	if err := c.Etcd.Pause(); err != nil {
		return nil, fmt.Errorf("copying etcd's data: %w", err)
	}
	err = os.CopyFS(dir, os.DirFS(c.etcd.data))
	if resumeErr := c.Etcd.Resume(); err == nil {
		err = resumeErr
	}
	if err != nil {
		return nil, fmt.Errorf("copying etcd's data: %w", err)
	}
	return &Snapshot{dir: dir}, nil
}

// Restore takes the cluster back to a snapshot: objects and resource versions are what they were, and what was
// written since has never been. Both processes are killed and started again, whether they ran or not. A snapshot
// can be restored any number of times.
func (c *Cluster) Restore(ctx context.Context, snapshot *Snapshot) error {
	defer c.APIServer.take()()
	defer c.Etcd.take()()
	c.APIServer.kill()
	c.Etcd.kill()
	if err := os.RemoveAll(c.etcd.data); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	if err := os.CopyFS(c.etcd.data, os.DirFS(snapshot.dir)); err != nil {
		return fmt.Errorf("restoring etcd's data: %w", err)
	}
	if err := c.Etcd.start(ctx); err != nil {
		return err
	}
	return c.APIServer.start(ctx)
}
