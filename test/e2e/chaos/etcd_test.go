// SPDX-License-Identifier: Apache-2.0

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/soak"
)

// markers is the namespace of the objects of upToDate.
const markers = "kube-public"

// restore restores etcd from a copy of some seconds ago. Both API servers are killed.
func (p *controlPlane) restore(ctx context.Context, load *soak.Load) (err error) {
	var snapshot *e2e.Snapshot
	backup, err := load.Backup(func() error { snapshot, err = p.cluster.Snapshot(ctx); return err })
	if err != nil {
		return err
	}
	hold(ctx, down)
	load.Count(restored, 1)
	load.Count(killed, len(p.servers()))
	stop := func() {
		for _, server := range p.servers() {
			server.Kill()
		}
	}
	return backup.Restore(stop, func() error { return p.cluster.Restore(ctx, snapshot) })
}

// compact removes old versions from etcd and from the servers while the client is disconnected, and objects change.
func (p *controlPlane) compact(ctx context.Context, load *soak.Load) error {
	load.Down(true)
	defer load.Down(false)
	hold(ctx, down)
	if err := p.restartAll(ctx, load); err != nil { // the servers keep versions in memory
		return err
	}
	load.Count(compacted, 1)
	return p.cluster.Compact(ctx)
}

func (p *controlPlane) killEtcd(ctx context.Context, _ *soak.Load) error {
	p.cluster.Etcd.Kill()
	hold(ctx, down)
	if err := p.cluster.Etcd.Restart(ctx); err != nil {
		return err
	}
	return p.upToDate(ctx)
}

// isolate cuts one of two servers off from etcd. Streams on it are silent. A new one gets the error that its version is
// too large, or no answer.
func (p *controlPlane) isolate(ctx context.Context, load *soak.Load) error {
	p.replica.Etcd.BlackHole(true)
	hold(ctx, down)
	load.Cut()
	hold(ctx, paused)
	p.replica.Etcd.BlackHole(false)
	p.replica.Etcd.Cut()
	return p.upToDate(ctx)
}

// lag delays what one of two servers hears from etcd.
func (p *controlPlane) lag(ctx context.Context, load *soak.Load) error {
	p.replica.Etcd.Delay(time.Second)
	for range 4 {
		hold(ctx, time.Second)
		load.Cut()
	}
	p.replica.Etcd.Delay(0)
	return p.upToDate(ctx)
}

// upToDate waits until all servers have new objects in memory. Only then a fault of etcd is healed.
func (p *controlPlane) upToDate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	name := fmt.Sprint("marker-", rand.Uint64())
	object := metav1.ObjectMeta{Name: name}
	secrets, configMaps := p.admin.CoreV1().Secrets(markers), p.admin.CoreV1().ConfigMaps(markers)
	err := e2e.Poll(ctx, func(ctx context.Context) error {
		_, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: object}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: object}, metav1.CreateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing a marker: %w", err)
	}
	fromMemory := metav1.GetOptions{ResourceVersion: "0"}
	for _, server := range []kubernetes.Interface{p.admin, p.onReplica} {
		err := e2e.Poll(ctx, func(ctx context.Context) error {
			_, err := server.CoreV1().Secrets(markers).Get(ctx, name, fromMemory)
			if err == nil {
				_, err = server.CoreV1().ConfigMaps(markers).Get(ctx, name, fromMemory)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("reading a marker: %w", err)
		}
	}
	return nil
}
