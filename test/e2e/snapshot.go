// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
)

// Snapshot is a copy of etcd's data. [Cluster.Stop] removes it.
type Snapshot struct{ dir string }

// Snapshot copies etcd's data, with all writes that were acknowledged before. It pauses etcd meanwhile, for some tenths
// of a second, and then resumes it. The copy is like the files after a kill -9, from which etcd can recover.
func (c *Cluster) Snapshot(ctx context.Context) (*Snapshot, error) {
	defer c.Etcd.acquire()()
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

// Restore rolls the cluster back to a snapshot: objects and resource versions are those of the snapshot, and later
// writes are lost. All processes are killed and started, whether they ran or not. A snapshot can be restored more than
// once.
func (c *Cluster) Restore(ctx context.Context, snapshot *Snapshot) error {
	servers := []*Process{c.APIServer}
	for _, replica := range c.allReplicas() {
		servers = append(servers, replica.Process)
	}
	for _, server := range servers {
		defer server.acquire()()
	}
	defer c.Etcd.acquire()()
	for _, server := range servers {
		server.kill()
	}
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
	for _, server := range servers {
		if err := server.start(ctx); err != nil {
			return err
		}
	}
	return nil
}
