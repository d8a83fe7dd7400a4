// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
	"github.com/refwatch/refwatch/manager"
)

// syncTimeout is how long a volume waits for objects that are not synced yet. A worker is busy as long, so
// it is short: the volume is tried again, and at once when the object comes.
const syncTimeout = 2 * time.Second

// work syncs pods until the queue is shut down. The queue never gives one UID to two workers.
func (a *Agent) work(ctx context.Context) {
	for {
		uid, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.sync(ctx, uid); err != nil {
			a.queue.AddRateLimited(uid)
		} else {
			a.queue.Forget(uid)
		}
		a.queue.Done(uid)
	}
}

// sync makes what is on disk for a pod equal to what there should be. The error joins what went wrong; it
// has been reported.
func (a *Agent) sync(ctx context.Context, uid types.UID) error {
	pod := a.pod(uid)
	if pod == nil {
		return a.removePod(ctx, uid)
	}
	// At the same time, so that volumes that wait wait together and the pod takes no longer than one.
	volumes := make([]VolumeStatus, 0, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; volume.Handles(v) {
			volumes = append(volumes, VolumeStatus{Name: v.Name, Path: a.tree.Path(uid, v.Name), source: v})
		}
	}
	var group sync.WaitGroup
	for i := range volumes {
		group.Go(func() { a.syncVolume(ctx, pod, &volumes[i]) })
	}
	group.Wait()
	if ctx.Err() != nil {
		return ctx.Err() // The agent stops: what failed now failed because of that.
	}
	return a.report(ctx, PodStatus{UID: uid, Namespace: pod.Namespace, Name: pod.Name, Volumes: volumes})
}

// syncVolume writes one volume, and notes in its status how that went.
func (a *Agent) syncVolume(ctx context.Context, pod *corev1.Pod, status *VolumeStatus) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	payload, err := volume.Build(ctx, pod, status.source, objects{a.secrets, a.configMaps})
	if err == nil {
		status.Files = len(payload)
		status.changed, err = a.tree.Write(pod.UID, status.Name, payload)
	}
	status.Err = err
}

// removePod removes what is left of a pod that is gone.
func (a *Agent) removePod(ctx context.Context, uid types.UID) error {
	err := a.tree.Remove(uid)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The folder of a pod that is gone cannot be removed", "podUID", uid)
		return err
	}
	klog.FromContext(ctx).V(2).Info("The folder of a pod that is gone was removed", "podUID", uid)
	a.status.remove(uid)
	return nil
}

// report publishes the status of a pod and logs what is new in it. A failure that goes on is not told
// again at the usual verbosity.
func (a *Agent) report(ctx context.Context, status PodStatus) error {
	logger := klog.FromContext(ctx).WithValues("pod", klog.KRef(status.Namespace, status.Name), "podUID", status.UID)
	before := a.status.set(status)
	var errs []error
	for _, v := range status.Volumes {
		switch logger := logger.WithValues("volume", v.Name); {
		case v.Err == nil && v.changed:
			logger.V(2).Info("Volume written", "files", v.Files)
		case v.Err == nil:
			logger.V(4).Info("Volume is up to date", "files", v.Files)
		case before.failure(v.Name) != v.Err.Error():
			logger.Error(v.Err, "Volume cannot be written; it stays as it was and is tried again")
		default:
			logger.V(4).Info("Volume still cannot be written", "err", v.Err)
		}
		if v.Err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", v.Name, v.Err))
		}
	}
	return errors.Join(errs...)
}

// objects is what volumes are built from: the two managers.
type objects struct {
	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
}

func (o objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return o.secrets.Get(ctx, namespace, name)
}

func (o objects) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return o.configMaps.Get(ctx, namespace, name)
}
